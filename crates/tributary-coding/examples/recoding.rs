//! A sender, a node in the middle that mixes the packets it holds, and a receiver, over two lossy links.

use tributary_coding::CoefficientKey;
use tributary_coding::rlnc::{Basis, Decoder, Encoder, Generation, Recoder, Vector, VectorError};
use tributary_types::Rng;

fn generation() -> Generation {
    Generation::new(CoefficientKey::new([7; 32]), 1, 32, Basis::Random).expect("32 symbols fit")
}

fn main() -> Result<(), VectorError> {
    let mut rng = Rng::new(1);
    let symbols: Vec<Vec<u8>> = (0..32_u8).map(|i| vec![i; 1400]).collect();
    let mut encoder = Encoder::new(generation(), symbols);
    let mut recoder = Recoder::new(generation(), 0);

    // 40 packets to the node in the middle, one in ten lost.
    let vectors: Vec<Vector> = (0..40).map(Vector::Random).collect();
    for (vector, payload) in vectors.iter().zip(encoder.encode(&vectors)?) {
        if rng.uniform() >= 0.1 {
            recoder.push(vector, payload)?;
        }
    }
    // Mixes to the receiver until it has decoded, one in five lost.
    let mut decoder = Decoder::new(generation());
    let mut sent = 0;
    while !decoder.is_complete() && sent < 1000 {
        for (vector, payload) in recoder.recode(4) {
            sent += 1;
            if rng.uniform() >= 0.2 {
                decoder.push(&vector, payload)?;
            }
        }
    }
    println!("the node in the middle held {} packets and sent {sent} mixes of them", recoder.held());
    println!(
        "decoded all 32 symbols: {}",
        (0..32).all(|i| decoder.symbol(i).is_some_and(|s| s[0] == i as u8))
    );
    Ok(())
}
