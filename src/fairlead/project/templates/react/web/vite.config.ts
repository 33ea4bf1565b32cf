import { defineConfig } from "vitest/config";

export default defineConfig({
  // The page and the actions come from one origin, in development too.
  server: { proxy: { "/fairlead": "http://127.0.0.1:8000" } },
  test: { environment: "happy-dom", globals: true },
});
