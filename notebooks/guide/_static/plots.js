// Draws the figures that `kernel.py` has put into the page, by the Plotly beside this.
for (const place of document.querySelectorAll('.plotly-figure')) {
  const { data, layout } = JSON.parse(place.querySelector('script').textContent);
  const room = { ...layout, width: undefined, autosize: true };
  Plotly.newPlot(place, data, room, { displayModeBar: false, responsive: true });
}
