//! Counts the steps of loops whose length a peer or the number of streams decides, so that tests can check the worst
//! cost of a frame (`docs/wire-cost.md`) without a clock. Outside of tests it does nothing.

#[cfg(test)]
thread_local! {
    static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// One step of such a loop.
#[inline]
pub(crate) fn step() {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// The steps that `act` takes.
#[cfg(test)]
pub(crate) fn steps(act: impl FnOnce()) -> u64 {
    let before = STEPS.with(core::cell::Cell::get);
    act();
    STEPS.with(core::cell::Cell::get) - before
}
