import './index.css';
// What stands beside the picture in JupyterLab, and nowhere else.
import './beside.css';
import './drawer.css';
import './source.css';
