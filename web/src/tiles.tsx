// The tiles of a slot, as they are shown: quality by shade and number, what is missing by sign.

export interface Tiles {
  columns: number;
  /** For each tile the index of its quality, -1: requested and not in time, -2: left out. */
  tiles: number[];
  qps: number[];
}

const SIGNS: Record<number, [string, string]> = {
  [-1]: ["!", "not in time: the last picture stays"],
  [-2]: ["·", "left out: the last picture stays"],
};

export function TileMap({ columns, tiles, qps, middle }: Tiles & { middle?: number }) {
  const finest = Math.max(1, qps.length - 1);
  const late = tiles.filter((quality) => quality === -1).length;
  const left = tiles.filter((quality) => quality === -2).length;
  const words = `${tiles.length - late - left} of ${tiles.length} tiles in time, ${late} not in time, ${left} left out`;
  return (
    <figure class="tiles">
      <div class="map" style={{ "--columns": columns }} role="img" aria-label={`tiles of the slot: ${words}`}>
        {tiles.map((quality, tile) => {
          const [sign, meaning] = SIGNS[quality] ?? [String(quality), `quality ${quality} (QP ${qps[quality] ?? "unknown"})`];
          const share = quality < 0 ? undefined : `${Math.round(100 * (1 - quality / (finest + 1)))}%`;
          return (
            <span
              key={tile}
              data-quality={quality}
              class={`${quality === -1 ? "late" : quality === -2 ? "out" : "good"}${tile === middle ? " middle" : ""}`}
              style={share === undefined ? {} : { "--share": share }}
              title={`tile ${tile}: ${meaning}`}
            >
              {sign}
            </span>
          );
        })}
      </div>
      <figcaption class="facts">
        {words}. 0 is the finest quality.
      </figcaption>
    </figure>
  );
}
