import { useEffect, useState } from "preact/hooks";

/**
 * Asks again and again, with a pause of `every` milliseconds, while the component is shown.
 *
 * `lost`: why the last answer did not come, `undefined` if it came. `at` is new after each turn. `again`: asks once more, now.
 */
export function usePolling<Answer>(ask: () => Promise<Answer>, take: (answer: Answer) => void, every: number) {
  const [lost, setLost] = useState<string>();
  const [at, setAt] = useState(0);
  const again = async () => {
    try {
      take(await ask());
      setLost(undefined);
    } catch (error) {
      setLost(error instanceof Error ? error.message : String(error));
    }
    setAt((count) => count + 1);
  };
  useEffect(() => {
    let timer = 0;
    let over = false;
    const turn = async () => {
      await again();
      if (!over) timer = window.setTimeout(turn, every);
    };
    void turn();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, []);
  return { lost, at, again };
}
