//! Shared by all targets: a bound on the memory that a target may use for an input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that a target may use for any input, bytes: twice the largest buffer that one value of a
/// format may require.
const MOST_BYTES: usize = 4 << 20;

/// Further memory per byte of the input, bytes. Text forms of a value have several times its bytes,
/// and a target holds a value in more than one form at the same time.
const MOST_FOR_A_BYTE: usize = 256;

/// The system's allocator with a count of the bytes in use.
#[derive(Debug)]
pub struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn taken(bytes: usize) {
    let now = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is passed to the system's allocator unchanged, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's guarantees are those that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs a target. Fails if it used more memory at the same time than permitted for the input.
pub fn bounded(target: fn(&[u8]), input: &[u8]) {
    let before = IN_USE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    target(input);
    let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
    let allowed = MOST_BYTES + MOST_FOR_A_BYTE * input.len();
    assert!(most <= allowed, "{most} bytes of memory for {} bytes of input", input.len());
}

/// Defines the program of a target.
#[macro_export]
macro_rules! target {
    ($($path:tt)+) => {
        libfuzzer_sys::fuzz_target!(|input: &[u8]| $crate::bounded($($path)+, input));
    };
}
