//! The kernels, the codes, the decoder and the recoder, each compared with peers: memcpy, the kernel's own
//! peak without memory access, ISA-L if it is installed, `rusty_erasure`, `rlnc`, `rlnc-simdx`.
//!
//! Data is a ring of generations larger than the second-level cache, like packets that a network card has
//! just written. Aims that hold for processors with GFNI apply only there.

mod contest;
mod isal;
mod kernels;
mod network;

use super::{BenchError, Progress, Tables};
use clap::Args;
use contest::{Contest, Entrant};
use core::hint::black_box;
use serde::Serialize;
use tributary_coding::{Kernel, Tier};
use tributary_report::Table;
use tributary_types::Rng;

/// Payload of a 1500-byte packet, a whole number of cache lines.
const SYMBOL: usize = 1408;
/// Data sets in the ring.
const RING: usize = 16;

/// GF(2^8) kernels, block codes, decoding and recoding beside memcpy, ISA-L, rusty_erasure, rlnc and rlnc-simdx.
///
/// ISA-L takes part when it is installed (Debian: libisal2).
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab bench coding
  tributary-lab bench coding --only decode --rounds 51 --json")]
pub struct Settings {
    /// Rounds of each contest; in each every contestant has its turn
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(3..=999))]
    pub rounds: u32,
    /// Run only contests whose name begins with this: kernels, encode-192, encode-128, encode-10, decode-systematic,
    /// decode-dense, recode
    #[arg(long)]
    pub only: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The kernel selected on this processor.
    pub kernel: &'static str,
    /// Whether the processor has the instructions that the aims of the fastest kernels assume.
    pub has_gfni: bool,
    /// Whether ISA-L was available.
    pub has_isal: bool,
    /// Bytes of a symbol.
    pub symbol: usize,
    pub contests: Vec<Contest>,
}

/// Runs contests: the number of rounds, and whether the aims for processors with GFNI apply.
type Holder = fn(u32, bool) -> Vec<Contest>;
/// Every contest by name.
const CONTESTS: [(&str, Holder); 7] = [
    ("kernels", kernels::products),
    ("encode-192", |rounds, gfni| vec![kernels::block_codes((192, 20), rounds, gfni.then_some(0.22))]),
    ("encode-128", |rounds, _| vec![kernels::block_codes((128, 13), rounds, None)]),
    ("encode-10", |rounds, _| vec![kernels::block_codes((10, 4), rounds, None)]),
    ("decode-systematic", |rounds, gfni| vec![network::decode_systematic(rounds, gfni.then_some(0.30))]),
    ("decode-dense", |rounds, _| [64, 128].map(|n| network::decode_dense(n, rounds)).to_vec()),
    ("recode", |rounds, _| vec![network::recode(rounds)]),
];

/// Runs the contests.
///
/// # Errors
/// [`BenchError::Program`] when no contest has the name.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let wanted = |name: &str| settings.only.as_ref().is_none_or(|only| name.starts_with(only.as_str()));
    if !CONTESTS.iter().any(|(name, _)| wanted(name)) {
        let program = settings.only.clone().unwrap_or_default();
        let reason = format!("no such contest; known: {}", CONTESTS.map(|(name, _)| name).join(", "));
        return Err(BenchError::Program { program, reason });
    }
    let tier = Kernel::best().tier();
    let has_gfni = matches!(tier, Tier::Avx512Gfni | Tier::VexGfni);
    let mut contests = Vec::new();
    for (name, hold) in CONTESTS.into_iter().filter(|(name, _)| wanted(name)) {
        progress(name);
        contests.extend(hold(settings.rounds, has_gfni));
    }
    let has_isal = isal::Isal::load(&[1], 1, 1).is_some();
    Ok(Report { kernel: tier.name(), has_gfni, has_isal, symbol: SYMBOL, contests })
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let mut tables: Vec<Table> = self.contests.iter().map(rates).collect();
        let title = match (self.has_gfni, self.has_isal) {
            (true, true) => format!("What is asked for; kernel {}", self.kernel),
            (false, true) => {
                format!("What is asked for; kernel {}, no GFNI here: its aims are left out", self.kernel)
            }
            (_, false) => format!(
                "What is asked for; kernel {}; ISA-L is not installed (Debian: libisal2) and did not take part",
                self.kernel
            ),
        };
        let aims =
            self.contests.iter().flat_map(|contest| contest.aims.iter().map(move |aim| (contest, aim)));
        let aims = Table::of(&title, aims)
            .text("contest", |(contest, _)| &contest.title)
            .text("ratio of", |(_, aim)| &aim.what)
            .judged("ratio", |(_, aim)| aim.ratio.cells(3))
            .table();
        tables.push(aims);
        tables
    }
}

fn rates(contest: &Contest) -> Table {
    let first = &contest.rates[0];
    Table::of(&contest.title, &contest.rates)
        .text("", |rate| &rate.name)
        .number(("rate", "GB/s"), 2, |rate| rate.gb_per_s)
        .number(&*format!("× {}", first.name), 3, |rate| rate.gb_per_s / first.gb_per_s)
        .table()
}

/// A ring of random generations.
struct Data(Vec<Vec<Vec<u8>>>);

impl Data {
    fn new(symbols: usize) -> Self {
        let mut rng = Rng::new(1);
        let mut block = || (0..SYMBOL).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>();
        Self((0..RING).map(|_| (0..symbols).map(|_| block()).collect()).collect())
    }

    fn slices(&self) -> Vec<Vec<&[u8]>> {
        self.0.iter().map(|set| set.iter().map(Vec::as_slice).collect()).collect()
    }
}

fn blocks(count: usize) -> Vec<Vec<u8>> {
    vec![vec![0; SYMBOL]; count]
}

fn places(blocks: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    blocks.iter_mut().map(Vec::as_mut_slice).collect()
}

fn copier<'a>(sets: &'a [Vec<&'a [u8]>]) -> Entrant<'a> {
    let mut copies = blocks(sets[0].len());
    Entrant::new("memcpy", move |i| {
        let set = &sets[i % sets.len()];
        copies.iter_mut().zip(set).for_each(|(to, from)| to.copy_from_slice(from));
        black_box(&copies);
        set.len() * SYMBOL
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_contest_lists_the_known_ones() {
        let settings = Settings { only: Some("encod-192".to_owned()), ..crate::defaults() };
        let error = run(&settings, &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("encode-192") && error.contains("recode"), "{error}");
    }

    #[test]
    fn a_contest_has_its_rates_and_aims() {
        let settings = Settings { rounds: 3, only: Some("encode-10".to_owned()) };
        let report = run(&settings, &mut |_| ()).expect("it runs");
        assert_eq!(report.contests.len(), 1);
        assert!(report.contests[0].aims.iter().all(|aim| aim.ratio.value > 0.0));
        assert_eq!(report.tables().len(), 2);
    }
}
