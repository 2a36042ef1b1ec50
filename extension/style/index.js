import './index.css';
// What stands beside the picture in JupyterLab, and nowhere else.
import './beside.css';
import './source.css';
