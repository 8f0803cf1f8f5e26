//! Giving memory back: to be called when something large is over and nothing follows.

/// What this thread has freed goes back to the system. The allocator does so by itself, but only while it is used: a process
/// that has become quiet would keep it.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub fn give_back() {
    // SAFETY: it takes a flag, and touches nothing but memory that the allocator knows to be free. In a process that has
    // another allocator, there is none.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

#[cfg(not(target_os = "linux"))]
pub fn give_back() {}
