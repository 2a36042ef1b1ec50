/** What the pages lack for those who hear them. */

// The arrows of the sidebar, which open the pages beneath one, have no name.
for (const arrow of document.querySelectorAll('.bd-links summary')) {
  const page = arrow.closest('li')?.querySelector('a')?.textContent.trim();
  arrow.setAttribute('aria-label', `Pages of ${page ?? 'this part'}`);
}

// The parameters of a long signature are definitions of nothing.
for (const list of document.querySelectorAll('.sig > dl')) {
  list.setAttribute('role', 'list');
  for (const parameter of list.children) {
    parameter.setAttribute('role', 'listitem');
  }
}
