//! Protects ten blocks with three parity blocks, loses three, and repairs them.

use tributary_coding::Kernel;
use tributary_coding::erasure::{Erasure, ErasureError};

fn main() -> Result<(), ErasureError> {
    let code = Erasure::new(10, 3)?;
    let data: Vec<Vec<u8>> = (0..10_u8).map(|i| vec![b'a' + i; 1024]).collect();
    let mut parity = vec![vec![0; 1024]; 3];
    let inputs: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&inputs, &mut outputs)?;

    let mut blocks: Vec<Option<Vec<u8>>> = data.iter().chain(&parity).cloned().map(Some).collect();
    for lost in [0, 7, 11] {
        blocks[lost] = None;
    }
    code.reconstruct(&mut blocks)?;
    let repaired = blocks.iter().flatten().zip(data.iter().chain(&parity)).all(|(have, want)| have == want);
    println!("lost blocks 0, 7 and parity 1; all repaired: {repaired}");
    println!("kernel: {}", Kernel::best().tier().name());
    Ok(())
}
