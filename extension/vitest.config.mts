import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    passWithNoTests: true,
    // No test fails since a machine is busy.
    testTimeout: 120_000
  }
});
