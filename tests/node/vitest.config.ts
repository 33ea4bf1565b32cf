// Copied beside the tests it is for, with node_modules: see tests/surfaces/client/test_client_ts.py.

import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["*.test.{ts,tsx}"],
    environmentOptions: { happyDOM: { url: process.env["HARBOUR_URL"] } },
    reporters: ["json"],
    outputFile: "results.json",
    testTimeout: 20_000,
    pool: "threads",
  },
});
