import { createHash } from "node:crypto";
import { defineConfig, type Plugin } from "vite";

/** Puts script and style into the page, and a policy that allows these two and requests to the page's own server. */
function oneFile(): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      const page = Object.values(bundle).find((file) => file.fileName === "index.html");
      if (page?.type !== "asset") throw new Error("there is no page");
      let script = "";
      let style = "";
      for (const file of Object.values(bundle)) {
        if (file === page) continue;
        if (file.type === "chunk") script += file.code;
        else style += file.source;
        delete bundle[file.fileName];
      }
      if (script.includes("</script") || style.includes("</style")) throw new Error("the script would end early");
      const hash = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
      const policy = [
        "default-src 'none'",
        `script-src ${hash(script)}`,
        `style-src ${hash(style)}`,
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
      ].join("; ");
      const bare = String(page.source)
        .replace(/\s*<(script|link)\b[^>]*(crossorigin|stylesheet)[^>]*>(<\/script>)?/g, "")
        .trim();
      page.source = bare
        .replace("<head>", () => `<head>\n    <meta http-equiv="Content-Security-Policy" content="${policy}">`)
        .replace("</head>", () => `  <style>${style}</style>\n  </head>`)
        .replace("</body>", () => `  <script type="module">${script}</script>\n  </body>`)
        .concat("\n");
      page.fileName = "dashboard.html";
    },
  };
}

export default defineConfig({
  root: "src",
  plugins: [oneFile()],
  build: {
    outDir: "../../crates/tributary/src/commands/status",
    emptyOutDir: false,
    assetsInlineLimit: 1e9,
    modulePreload: false,
  },
});
