import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from '@playwright/test';

const port = process.env.WORKBENCH_TEST_PORT ?? '18912';
const address = `http://127.0.0.1:${port}`;
const report = process.env.WORKBENCH_TEST_REPORT;

/**
 * `make test` runs the journeys that are tagged @smoke, `make test-long` all others: two
 * at a time, and after them, alone, those tagged @alone, which measure. Those tagged
 * @measure measure for minutes: they run by hand alone, without a lane, as all others.
 */
const LANES = {
  smoke: { grep: /@smoke/ },
  long: { grepInvert: /@smoke|@alone|@measure/, workers: 2 },
  alone: { grep: /@alone/ }
};

// Nothing of the user takes part, and nothing is written there: the home may be
// read-only. The workers of Playwright, JupyterLab and Chromium inherit this.
process.env.WORKBENCH_TEST_HOME ??= mkdtempSync(join(tmpdir(), 'workbench-home-'));
process.env.HOME = process.env.WORKBENCH_TEST_HOME;
for (const name of Object.keys(process.env)) {
  if (/^(XDG_.*_(HOME|DIR)|JUPYTER(LAB)?_.*_DIR|IPYTHONDIR)$/.test(name)) {
    delete process.env[name];
  }
}
process.env.LOGNAME ??= 'tests'; // JupyterLab asks who it is; the user may have no name

export default defineConfig({
  testDir: 'tests',
  // `training.py` makes a picture that moves of the frames that this file takes.
  testMatch: process.env.WORKBENCH_FRAMES ? '*.frames.ts' : '*.spec.ts',
  workers: 1,
  ...LANES[process.env.WORKBENCH_TEST_LANE],
  // What passes only then is told as flaky.
  retries: 1,
  timeout: 240_000,
  // More than a lane takes; tests/run.py waits a little longer.
  globalTimeout: 2_400_000,
  // No test fails since a machine is busy.
  expect: { timeout: 20_000 },
  forbidOnly: Boolean(process.env.CI),
  reporter: report ? [['list'], ['json', { outputFile: report }]] : 'list',
  webServer: {
    command:
      'jupyter lab --config jupyter_server_test_config.py' +
      ` --port ${port} --ServerApp.port_retries=0`,
    url: `${address}/lab`,
    timeout: 120_000,
    reuseExistingServer: false
  },
  use: {
    baseURL: address,
    viewport: { width: 1280, height: 800 },
    video: 'off',
    trace: 'off',
    launchOptions: {
      executablePath: process.env.WORKBENCH_CHROMIUM ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--disable-dev-shm-usage'
      ]
    }
  }
});
