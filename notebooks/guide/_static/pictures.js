// Makes a saved picture of a graph live: the page of `Session.to_html`, which is loaded
// once, from this site, in a frame that may run its own script and nothing else.
const SITE = new URL('.', document.currentScript.src);
const PLACE = '<script type="application/json" id="workbench-data">';
let renderer = null;

async function load(address) {
  const answer = await fetch(address);
  if (!answer.ok) {
    throw new Error(`the site answers ${answer.status}`);
  }
  return answer.text();
}

async function openLive(place, button, message) {
  message.textContent = '';
  button.disabled = true;
  try {
    renderer ??= load(new URL('page.html', SITE));
    showLive(place, await renderer);
  } catch (error) {
    renderer = null; // so that another click tries again
    button.disabled = false;
    message.textContent =
      `It does not open: page.html cannot be loaded (${error.message}).` +
      ' Check the network, and press the button again.';
  }
}

function showLive(place, page) {
  const [head, tail] = page.split(PLACE);
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
  const message = document.createElement('span');
  message.setAttribute('role', 'status');
  button.addEventListener('click', () => openLive(place, button, message));
  place.prepend(button, message);
}
