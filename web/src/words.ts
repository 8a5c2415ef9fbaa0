// Numbers as text.

export const bytes = (count: number) => {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (count >= 1000 && at + 1 < units.length) {
    count /= 1000;
    at += 1;
  }
  return `${count.toFixed(at === 0 || count >= 100 ? 0 : 1)} ${units[at]}`;
};

export const duration = (seconds: number) => {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
};

export const mbps = (rate: number) => rate.toFixed(rate >= 100 ? 0 : 1);

/** The measured quality of a picture in the viewport. */
export const qualityWords = (quality: { slot: number; viewport_psnr_db: number | null; every: number } | null | undefined) =>
  quality ? `${quality.viewport_psnr_db === null ? "no error" : `${quality.viewport_psnr_db.toFixed(1)} dB`} in GoP ${quality.slot}` : "–";
