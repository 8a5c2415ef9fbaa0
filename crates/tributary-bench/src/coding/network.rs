//! Network codes: decoding after loss, decoding from random combinations, recoding; compared with other RLNC
//! libraries.

use super::contest::{Contest, Entrant};
use super::{Data, RING, SYMBOL, copier};
use core::hint::black_box;
use rand::SeedableRng;
use rlnc::full::{Decoder as RlncDecoder, Encoder as RlncEncoder, Recoder as RlncRecoder};
use rlnc_simdx::{
    CodedPacket, Decoder as SimdxDecoder, Encoder as SimdxEncoder, Recoder as SimdxRecoder, SimpleRng,
};
use tributary_coding::CoefficientKey;
use tributary_coding::rlnc::{Basis, Decoder, Encoder, Generation, Recoder, Vector};
use tributary_types::Rng;

/// Decoding and recoding must be this many times as fast as the other libraries.
const TIMES_PEERS: Option<f64> = Some(3.5);

fn generation(symbols: usize, basis: Basis) -> Generation {
    Generation::new(CoefficientKey::new([3; 32]), 1, symbols, basis).expect("a size")
}

/// 128 symbols, 13 of them lost and replaced by Cauchy rows; from packets to symbols.
pub(super) fn decode_systematic(rounds: u32, of_memcpy: Option<f64>) -> Contest {
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
            let kept = (0..N)
                .filter(|i| !lost.contains(i))
                .map(|i| (Vector::Original(i as u16), set[i].clone().into()));
            kept.chain(rows.iter().cloned().zip(parity)).collect()
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
    let entrants = vec![copier(&sets), Entrant::new("tributary", decode)];
    let mut contest = Contest::hold("decode 128 symbols, 10 % lost", rounds, entrants);
    contest.aim("tributary", "memcpy", of_memcpy);
    contest
}

/// n random combinations to n symbols, compared with the other RLNC libraries.
pub(super) fn decode_dense(n: usize, rounds: u32) -> Contest {
    let data = Data::new(n);
    let sets = data.slices();
    let vectors: Vec<Vector> = (0..n as u16 + 4).map(Vector::Random).collect();
    let packets: Vec<Vec<bytes::Bytes>> = data
        .0
        .iter()
        .map(|set| Encoder::new(generation(n, Basis::Random), set.clone()).encode(&vectors).expect("vectors"))
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
        copier(&sets),
        Entrant::new("tributary", own),
        Entrant::new("rlnc-simdx", simdx),
        Entrant::new("rlnc", rlnc),
    ];
    let title = format!("decode {n} symbols from random combinations");
    let mut contest = Contest::hold(&title, rounds, entrants);
    contest.aim("tributary", "rlnc-simdx", TIMES_PEERS);
    contest
}

/// Packets of `rlnc-simdx`. Its own generator is linear over GF(2), and its vectors have rank 64 at most, so
/// that larger generations would never decode. The coefficients therefore come from a seeded generator.
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
    // One byte less, because that crate appends a marker.
    let mut whole = set.concat();
    whole.pop();
    let encoder = RlncEncoder::new(whole, n).expect("a shape");
    let mut random = rand::rngs::SmallRng::seed_from_u64(1);
    ((0..n + 4).map(|_| encoder.code(&mut random)).collect(), encoder.get_piece_byte_len())
}

/// Mixes of 64 held packets, eight per call as in an access point.
pub(super) fn recode(rounds: u32) -> Contest {
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
                recoder.push(vector, payload).expect("a basis vector");
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
        copier(&sets),
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
    let mut contest = Contest::hold("recode: 8 mixes of 64 packets, product bytes", rounds, entrants);
    contest.aim("tributary", "rlnc-simdx", TIMES_PEERS);
    contest.aim("tributary", "rlnc", TIMES_PEERS);
    contest
}
