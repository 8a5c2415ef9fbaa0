import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

interface Page {
  /** Folder of its source. */
  root: string;
  /** Folder and file that the program includes. */
  folder: string;
  file: string;
  /** It has frames. */
  frames?: boolean;
  /** It loads dash.js, which the program serves beside it, and plays video from memory. */
  dashJs?: boolean;
}

const PAGES: Record<string, Page> = {
  dashboard: { root: "src", folder: "tributary/src/commands/status", file: "dashboard.html" },
  dash: { root: "src/dash", folder: "tributary/src/commands/dash", file: "dash.html", dashJs: true },
  play: { root: "src/play", folder: "tributary/src/commands/stream", file: "play.html" },
  stand: { root: "src/stand", folder: "tributary-lab/src/show", file: "show.html", frames: true },
};

/** The hash of dash.js, by which the page's policy knows it. */
const DASH_JS = `sha384-${createHash("sha384").update(gunzipSync(readFileSync("../crates/tributary/src/commands/dash/dash.js.gz"))).digest("base64")}`;

/** Puts script and style into the page, and a policy that allows these two, and requests to the page's own server and frames from it. */
function oneFile({ file: name, frames, dashJs }: Page): Plugin {
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
        `script-src ${hash(script)}${dashJs === true ? ` '${DASH_JS}'` : ""}`,
        `style-src ${hash(style)}`,
        "connect-src 'self'",
        ...(frames === true ? ["frame-src 'self'"] : []),
        ...(dashJs === true ? ["media-src blob:"] : []),
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
    plugins: [oneFile(page)],
    // Which page it is says nothing about how it is made.
    define: { "process.env.NODE_ENV": '"production"', DASH_JS_HASH: JSON.stringify(DASH_JS) },
    build: {
      outDir: path.resolve(`../crates/${page.folder}`),
      emptyOutDir: false,
      assetsInlineLimit: 1e9,
      modulePreload: false,
    },
  };
});
