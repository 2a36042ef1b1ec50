import { defineConfig } from 'vitest/config';

export default defineConfig({
  // The script of the documentation is tested too.
  server: { fs: { allow: ['.', '../notebooks/guide/_static'] } },
  test: {
    include: ['tests/**/*.test.ts'],
    passWithNoTests: true,
    // No test fails since a machine is busy.
    testTimeout: 120_000
  }
});
