import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from '@playwright/test';

const port = process.env.WORKBENCH_TEST_PORT ?? '18912';
const address = `http://127.0.0.1:${port}`;
const report = process.env.WORKBENCH_TEST_REPORT;

export default defineConfig({
  testDir: 'tests',
  // What takes minutes runs by itself, with `make test-long`.
  ...(process.env.WORKBENCH_TEST_LONG ? { grep: /@long/ } : { grepInvert: /@long/ }),
  workers: 1,
  // What passes only then is told as flaky.
  retries: 1,
  timeout: 120_000,
  // They take 17 to 26 minutes on two cores that the Python tests share with them;
  // tests/run.py waits a little longer.
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
    // Nothing of the user's own settings takes part.
    env: { JUPYTER_CONFIG_DIR: mkdtempSync(join(tmpdir(), 'workbench-config-')) },
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
