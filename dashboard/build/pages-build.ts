// Builds the pages into a folder that the platform serves: every script and style is a file of its
// own, as the content security policy demands, with the hash of its content in its name.
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { compressed } from "./compressed.ts";
import { firstLoad } from "./first-load.ts";

export default defineConfig({
  base: "/dashboard/",
  plugins: [react(), firstLoad({ gzipBytesMax: 250_000 }), compressed()],
  build: {
    target: "es2022",
    // A data: URL would need an exception in the policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
});
