import { createHash } from "node:crypto";
import path from "node:path";
import { defineConfig, type Plugin } from "vite";

/** The pages: their folder below `src`, the folder and file that the program includes, and whether they have frames. */
const PAGES: Record<string, { root: string; folder: string; file: string; frames?: boolean }> = {
  dashboard: { root: "src", folder: "tributary/src/commands/status", file: "dashboard.html" },
  play: { root: "src/play", folder: "tributary/src/commands/stream", file: "play.html" },
  stand: { root: "src/stand", folder: "tributary-lab/src/show", file: "show.html", frames: true },
};

/** Puts script and style into the page, and a policy that allows these two, and requests to the page's own server and frames from it. */
function oneFile(name: string, frames: boolean): Plugin {
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
        ...(frames ? ["frame-src 'self'"] : []),
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
      page.fileName = name;
    },
  };
}

export default defineConfig(({ mode }) => {
  const page = PAGES[mode];
  if (page === undefined) throw new Error(`--mode is one of ${Object.keys(PAGES).join(", ")}`);
  return {
    root: page.root,
    plugins: [oneFile(page.file, page.frames === true)],
    // Which page it is says nothing about how it is made.
    define: { "process.env.NODE_ENV": '"production"' },
    build: {
      outDir: path.resolve(`../crates/${page.folder}`),
      emptyOutDir: false,
      assetsInlineLimit: 1e9,
      modulePreload: false,
    },
  };
});
