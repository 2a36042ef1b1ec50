// Makes a saved picture of a graph live: the page of `Session.to_html`, which is loaded
// once, from this site, in a frame that may run its own script and nothing else.
const SITE = new URL('.', document.currentScript.src);
const PLACE = '<script type="application/json" id="workbench-data">';
let renderer;

async function showLive(place) {
  renderer ??= fetch(new URL('page.html', SITE)).then(answer => answer.text());
  const [head, tail] = (await renderer).split(PLACE);
  // Written so, no label can end the script.
  const data = place.querySelector('script').textContent.replaceAll('<', '\\u003c');
  const frame = document.createElement('iframe');
  frame.title = place.querySelector('img').alt;
  frame.setAttribute('sandbox', 'allow-scripts');
  frame.srcdoc = head + PLACE + data + tail;
  place.replaceChildren(frame);
}

for (const place of document.querySelectorAll('.workbench-picture')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Open live';
  button.addEventListener('click', () => showLive(place));
  place.prepend(button);
}
