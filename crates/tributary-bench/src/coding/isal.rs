//! ISA-L as a peer, loaded from the system if it is installed. Not linked: the crate builds without it.

use core::ffi::{c_int, c_void};

type InitTables = unsafe extern "C" fn(c_int, c_int, *const u8, *mut u8);
type EncodeData = unsafe extern "C" fn(c_int, c_int, c_int, *const u8, *const *const u8, *const *mut u8);

/// `ec_encode_data` with its tables for one matrix.
pub(super) struct Isal {
    encode: EncodeData,
    tables: Vec<u8>,
    data: usize,
    parity: usize,
}

/// File name of the system's library.
const LIBRARY: &core::ffi::CStr = c"libisal.so.2";

impl Isal {
    /// The library, prepared for a `parity × data` matrix; `None` if it is not installed.
    pub(super) fn load(matrix: &[u8], data: usize, parity: usize) -> Option<Self> {
        assert_eq!(matrix.len(), data * parity);
        // SAFETY: the name is a C string; ISA-L has no initialiser that could misbehave.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        let init = symbol(library, c"ec_init_tables")?;
        let encode = symbol(library, c"ec_encode_data")?;
        // SAFETY: the two functions have these signatures (erasure_code.h of ISA-L 2).
        let (init, encode) = unsafe {
            (
                core::mem::transmute::<*mut c_void, InitTables>(init),
                core::mem::transmute::<*mut c_void, EncodeData>(encode),
            )
        };
        let mut tables = vec![0; 32 * data * parity];
        // SAFETY: the matrix has data · parity bytes and the tables 32 per element.
        unsafe { init(data as c_int, parity as c_int, matrix.as_ptr(), tables.as_mut_ptr()) };
        Some(Self { encode, tables, data, parity })
    }

    /// Overwrites `parity` with the product.
    pub(super) fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        assert!(data.len() == self.data && parity.len() == self.parity);
        let length = data[0].len();
        assert!(data.iter().all(|d| d.len() == length) && parity.iter().all(|p| p.len() == length));
        let from: Vec<*const u8> = data.iter().map(|block| block.as_ptr()).collect();
        let to: Vec<*mut u8> = parity.iter_mut().map(|block| block.as_mut_ptr()).collect();
        let (k, rows) = (self.data as c_int, self.parity as c_int);
        // SAFETY: k inputs and `rows` outputs of `length` bytes, tables made for this shape.
        unsafe { (self.encode)(length as c_int, k, rows, self.tables.as_ptr(), from.as_ptr(), to.as_ptr()) };
    }
}

fn symbol(library: *mut c_void, name: &core::ffi::CStr) -> Option<*mut c_void> {
    // SAFETY: the library is open and stays so; the name is a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
