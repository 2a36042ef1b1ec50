import eslint from '@eslint/js';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

export default defineConfig(
  { ignores: ['lib/', '**/node_modules/', '**/*.js'] },
  eslint.configs.recommended,
  {
    files: ['src/**/*.{ts,tsx}', 'tests/**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      // `!` marks an index that is known to be in range.
      '@typescript-eslint/no-non-null-assertion': 'off',
      // Lumino's signals take a method and its `this` apart.
      '@typescript-eslint/unbound-method': 'off',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true }
      ],
      // What a handler calls may stand behind its arrow, where nothing is expected of it.
      '@typescript-eslint/no-confusing-void-expression': [
        'error',
        { ignoreVoidReturningFunctions: true }
      ],
      eqeqeq: 'error',
      'no-console': 'error'
    }
  },
  {
    // Their types come from an installation of their own, which is made only
    // where there is a browser: `tsc` checks them there.
    files: ['ui-tests/tests/**/*.ts'],
    extends: [tseslint.configs.strict],
    rules: { '@typescript-eslint/no-non-null-assertion': 'off' }
  }
);
