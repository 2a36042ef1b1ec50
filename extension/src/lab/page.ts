/** Gets the page that shows a picture without JupyterLab; the server has it as a file. */

export async function loadPage(): Promise<string> {
  // Seen from where this file is compiled to.
  const address = new URL('../../../workbench/session/page.html', import.meta.url);
  const answer = await fetch(address);
  if (!answer.ok) {
    throw new Error(`the server answered ${answer.status} for the page`);
  }
  return answer.text();
}
