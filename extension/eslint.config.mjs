import js from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  js.configs.recommended,
  ...tseslint.configs.recommendedTypeChecked.map((config) => ({ ...config, files: ["src/**/*.ts", "src/**/*.tsx"] })),
  {
    files: ["src/**"],
    languageOptions: { parserOptions: { project: "./tsconfig.json" } },
    rules: {
      // signals are given their `this`
      "@typescript-eslint/unbound-method": "off",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "@typescript-eslint/explicit-function-return-type": ["error", { allowExpressions: true }],
    },
  },
  { files: ["test/**"], languageOptions: { globals: { setTimeout: "readonly" } } },
);
