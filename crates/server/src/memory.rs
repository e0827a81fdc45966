//! Memory that is free in this process and still counted as ours by the system.
//!
//! The allocator of the GNU C library keeps freed memory between pieces that are in use. After a burst of connections that is
//! nearly all that the burst needed, for as long as the process runs.

/// Gives free memory back to the system. Other threads wait meanwhile when they want memory.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(
            unsafe_code,
            reason = "a function of the C library: it takes a number, touches only free memory, and locks"
        )]
        // SAFETY: the signature is that of the C library, and any thread may call it at any time.
        unsafe {
            unsafe extern "C" {
                fn malloc_trim(pad: usize) -> i32;
            }
            malloc_trim(0);
        }
    }
}
