//! Speed of the kernels, the codes and the decoder, as ratios to peers in the same run.
//!
//! `cargo bench -p tributary-coding`, or one contest: `-- encode-192`. Peers: memcpy, the kernel's own peak without memory, ISA-L when
//! it is installed (Debian: libisal2), `rusty_erasure`, `rlnc`, `rlnc-simdx`. Data is a ring of
//! generations larger than the second-level cache, as packets that a network card has just written.

mod contest;
mod isal;

use contest::{Entrant, contest};
use core::hint::black_box;
use isal::Isal;
use rand::SeedableRng;
use rlnc::full::{Decoder as RlncDecoder, Encoder as RlncEncoder, Recoder as RlncRecoder};
use rlnc_simdx::{
    CodedPacket, Decoder as SimdxDecoder, Encoder as SimdxEncoder, Recoder as SimdxRecoder, SimpleRng,
};
use tributary_coding::erasure::Erasure;
use tributary_coding::rlnc::{Basis, Decoder, Encoder, Generation, Recoder, Vector};
use tributary_coding::{CoefficientKey, Kernel, Tier};
use tributary_types::Rng;

/// Payload of a 1500-byte packet, a whole number of cache lines.
const SYMBOL: usize = 1408;
/// Data sets in the ring.
const RING: usize = 16;

fn main() {
    let tier = Kernel::best().tier();
    println!("kernel: {}; symbols of {SYMBOL} bytes; medians of 21 turns", tier.name());
    if !matches!(tier, Tier::Avx512Gfni | Tier::VexGfni) {
        println!("this processor has no GFNI: a shuffle kernel has half the peak of AVX-512 with GFNI");
    }
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let contests: [(&str, fn()); 7] = [
        ("kernels", kernels),
        ("encode-192", || block_codes(192, 20)),
        ("encode-128", || block_codes(128, 13)),
        ("encode-10", || block_codes(10, 4)),
        ("decode-systematic", decode_systematic),
        ("decode-dense", || [64, 128].into_iter().for_each(decode_dense)),
        ("recode", recode),
    ];
    for (_, run) in
        contests.iter().filter(|(name, _)| only.as_ref().is_none_or(|only| name.starts_with(only.as_str())))
    {
        run();
    }
}

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

fn copier<'a>(sets: &'a [Vec<&'a [u8]>], name: &str) -> Entrant<'a> {
    let mut copies = blocks(sets[0].len());
    Entrant::new(name, move |i| {
        let set = &sets[i % sets.len()];
        copies.iter_mut().zip(set).for_each(|(to, from)| to.copy_from_slice(from));
        black_box(&copies);
        set.len() * SYMBOL
    })
}

/// Product bytes (input bytes times outputs) of every tier, beside memcpy and the tier's own peak.
fn kernels() {
    let data = Data::new(128);
    let sets = data.slices();
    for kernel in Kernel::available() {
        let mut entrants = vec![copier(&sets, "memcpy")];
        entrants.push(Entrant::new("in-register peak", |_| kernel.peak(2000)));
        for rows in [1, 3, 6, 12] {
            let matrix: Vec<u8> = (0..rows * 128).map(|i| (i * 7 + 3) as u8).collect();
            let (mut outputs, sets) = (blocks(rows), &sets);
            entrants.push(Entrant::new(format!("{rows} outputs of 128 inputs"), move |i| {
                kernel.multiply(&mut places(&mut outputs), &matrix, &sets[i % RING]);
                black_box(&outputs);
                rows * 128 * SYMBOL
            }));
        }
        let name = kernel.tier().name();
        let rates = contest(&format!("products per second, {name}"), entrants);
        println!("  kernel with 12 outputs / in-register peak: {:.2}", rates[5] / rates[1]);
    }
}

/// The same matrix, the same blocks.
fn block_codes(data: usize, parity: usize) {
    let input = Data::new(data);
    let sets = input.slices();
    let code = Erasure::new(data, parity).expect("a shape");
    let matrix: Vec<u8> = (0..parity).flat_map(|row| code.row(row)).copied().collect();
    let identity = (0..data * data).map(|i| u8::from(i / data == i % data));
    let whole: Vec<u8> = identity.chain(matrix.iter().copied()).collect();
    let peer_matrix = rusty_erasure::Matrix::from_bytes(data + parity, data, whole).expect("a matrix");
    let rusty = rusty_erasure::coder(peer_matrix).expect("a coder");
    let isal = Isal::load(&matrix, data, parity);
    let mut expected = blocks(parity);
    code.encode(&sets[0], &mut places(&mut expected)).expect("its blocks");
    let mut check = blocks(parity);
    rusty.encode(&sets[0], &mut places(&mut check)).expect("its blocks");
    assert_eq!(check, expected, "rusty_erasure makes other parity");

    let (mut own, mut theirs, mut other) = (blocks(parity), blocks(parity), blocks(parity));
    let mut entrants = vec![copier(&sets, "memcpy")];
    let sets = &sets;
    entrants.push(Entrant::new("tributary", |i| {
        code.encode(&sets[i % RING], &mut places(&mut own)).expect("its blocks");
        data * SYMBOL
    }));
    entrants.push(Entrant::new("rusty_erasure", |i| {
        rusty.encode(&sets[i % RING], &mut places(&mut theirs)).expect("its blocks");
        data * SYMBOL
    }));
    if let Some(isal) = &isal {
        isal.encode(&sets[0], &mut places(&mut check));
        assert_eq!(check, expected, "ISA-L makes other parity");
        entrants.push(Entrant::new("isa-l", |i| {
            isal.encode(&sets[i % RING], &mut places(&mut other));
            data * SYMBOL
        }));
    } else {
        println!("\nISA-L is not installed (Debian: apt-get install libisal2); not compared");
    }
    let rates = contest(&format!("encode {data} blocks + {parity} parity, input bytes"), entrants);
    let best = rates[2..].iter().copied().fold(0.0, f64::max);
    println!("  tributary / the better block code: {:.2}", rates[1] / best);
}

fn generation(symbols: usize, basis: Basis) -> Generation {
    Generation::new(CoefficientKey::new([3; 32]), 1, symbols, basis).expect("a size")
}

/// 128 symbols, 13 lost, 13 Cauchy rows instead; from packets to symbols.
fn decode_systematic() {
    const N: usize = 128;
    let data = Data::new(N);
    let sets = data.slices();
    let lost: Vec<usize> = (0..13).map(|i| i * 9 + 4).collect();
    let rows: Vec<Vector> = (0..13).map(Vector::Cauchy).collect();
    let packets: Vec<Vec<(Vector, bytes::Bytes)>> = data
        .0
        .iter()
        .map(|set| {
            let parity =
                Encoder::new(generation(N, Basis::Systematic), set.clone()).encode(&rows).expect("rows");
            let kept =
                (0..N).filter(|i| !lost.contains(i)).map(|i| (Vector::Original(i as u16), set[i].clone()));
            kept.chain(rows.iter().cloned().zip(parity))
                .map(|(vector, payload)| (vector, payload.into()))
                .collect()
        })
        .collect();
    let decode = |i: usize| {
        let mut decoder = Decoder::new(generation(N, Basis::Systematic));
        for (vector, payload) in &packets[i % RING] {
            decoder.push(vector, payload.clone()).expect("of the generation");
        }
        assert!(decoder.is_complete());
        black_box(&decoder);
        N * SYMBOL
    };
    let rates = contest(
        "decode 128 symbols, 10 % lost",
        vec![copier(&sets, "memcpy"), Entrant::new("tributary", decode)],
    );
    println!("  target with GFNI: 0.30 × memcpy; here {:.3}", rates[1] / rates[0]);
}

/// n random combinations to n symbols, beside the other RLNC libraries.
fn decode_dense(n: usize) {
    let data = Data::new(n);
    let sets = data.slices();
    let vectors: Vec<Vector> = (0..n as u16 + 4).map(Vector::Random).collect();
    let packets: Vec<Vec<bytes::Bytes>> = data
        .0
        .iter()
        .map(|set| {
            let made =
                Encoder::new(generation(n, Basis::Random), set.clone()).encode(&vectors).expect("vectors");
            made.into_iter().map(Into::into).collect()
        })
        .collect();
    let own = |i: usize| {
        let mut decoder = Decoder::new(generation(n, Basis::Random));
        for (vector, payload) in vectors.iter().zip(&packets[i % RING]) {
            decoder.push(vector, payload.clone()).expect("of the generation");
        }
        assert!(decoder.is_complete());
        n * SYMBOL
    };
    let simdx_packets = simdx_packets(&sets[0], n);
    let simdx = |_| {
        let mut decoder = SimdxDecoder::new(n, SYMBOL).expect("a shape");
        for packet in &simdx_packets {
            if decoder.is_complete() {
                break;
            }
            decoder.receive(packet.clone()).expect("of the generation");
        }
        black_box(decoder.decode().expect("decodes").expect("complete"));
        n * SYMBOL
    };
    let (rlnc_packets, piece) = rlnc_packets(&data.0[0], n);
    let rlnc = |_| {
        let mut decoder = RlncDecoder::new(piece, n).expect("a shape");
        for packet in &rlnc_packets {
            if decoder.is_already_decoded() {
                break;
            }
            let _ = black_box(decoder.decode(packet));
        }
        black_box(decoder.get_decoded_data().expect("complete"));
        n * SYMBOL
    };
    let entrants = vec![
        copier(&sets, "memcpy"),
        Entrant::new("tributary", own),
        Entrant::new("rlnc-simdx", simdx),
        Entrant::new("rlnc", rlnc),
    ];
    let rates = contest(&format!("decode {n} symbols from random combinations"), entrants);
    println!("  tributary / rlnc-simdx: {:.2}, / rlnc: {:.2}", rates[1] / rates[2], rates[1] / rates[3]);
}

/// Packets of `rlnc-simdx`. Its own generator is linear over GF(2) and its vectors have rank 64 at most,
/// so that larger generations never decode; the coefficients come from a seeded generator instead.
fn simdx_packets(set: &[&[u8]], n: usize) -> Vec<CodedPacket> {
    let mut rng = Rng::new(9);
    let packet = |_| {
        let coefficients: Vec<u8> = (0..n).map(|_| rng.next_u64() as u8).collect();
        let mut payload = vec![0; SYMBOL];
        rlnc_simdx::kernel::axpy_multi(&coefficients, set, &mut payload);
        CodedPacket::from_vecs(coefficients, payload)
    };
    (0..n + 4).map(packet).collect()
}

/// Packets of the `rlnc` crate and its piece length.
fn rlnc_packets(set: &[Vec<u8>], n: usize) -> (Vec<Vec<u8>>, usize) {
    // One byte less: that crate appends a marker.
    let mut whole = set.concat();
    whole.pop();
    let encoder = RlncEncoder::new(whole, n).expect("a shape");
    let mut random = rand::rngs::SmallRng::seed_from_u64(1);
    ((0..n + 4).map(|_| encoder.code(&mut random)).collect(), encoder.get_piece_byte_len())
}

/// Mixes of 64 held packets, eight per call as an access point makes them in spare time.
fn recode() {
    const N: usize = 64;
    let data = Data::new(N);
    let sets = data.slices();
    let vectors: Vec<Vector> = (0..N as u16).map(Vector::Random).collect();
    let mut recoders: Vec<Recoder> = data
        .0
        .iter()
        .map(|set| {
            let made =
                Encoder::new(generation(N, Basis::Random), set.clone()).encode(&vectors).expect("vectors");
            let mut recoder = Recoder::new(generation(N, Basis::Random), 0);
            for (vector, payload) in vectors.iter().zip(made) {
                recoder.push(vector, payload.into()).expect("a basis vector");
            }
            recoder
        })
        .collect();
    let simdx_encoder = SimdxEncoder::new(N, SYMBOL).expect("a shape");
    let mut numbers = SimpleRng::new(5);
    let held: Vec<Vec<_>> = sets
        .iter()
        .map(|set| {
            (0..N).map(|_| simdx_encoder.encode_random(set, &mut numbers).expect("a packet")).collect()
        })
        .collect();
    let rlnc_recoders: Vec<RlncRecoder> = data
        .0
        .iter()
        .map(|set| {
            let (packets, _) = rlnc_packets(set, N);
            let length = packets[0].len();
            RlncRecoder::new(packets[..N].concat(), length, N).expect("a shape")
        })
        .collect();
    let mut rlnc_recoders = rlnc_recoders;
    let mut random = rand::rngs::SmallRng::seed_from_u64(2);
    let mut buffer = vec![0; rlnc_packets(&data.0[0], N).0[0].len()];
    let entrants = vec![
        copier(&sets, "memcpy"),
        Entrant::new("tributary", |i| {
            black_box(recoders[i % RING].recode(8));
            8 * N * SYMBOL
        }),
        Entrant::new("rlnc-simdx", |i| {
            for _ in 0..8 {
                black_box(SimdxRecoder::recode(&held[i % RING], &mut numbers).expect("a mix"));
            }
            8 * N * SYMBOL
        }),
        Entrant::new("rlnc", |i| {
            for _ in 0..8 {
                rlnc_recoders[i % RING].recode_with_buf(&mut random, &mut buffer).expect("a mix");
            }
            8 * N * SYMBOL
        }),
    ];
    let rates = contest("recode: 8 mixes of 64 packets, product bytes", entrants);
    println!("  tributary / rlnc-simdx: {:.2}, / rlnc: {:.2}", rates[1] / rates[2], rates[1] / rates[3]);
}
