//! Counts the bytes that a search looks at, so that tests can say what a slow peer costs. Outside of tests it is
//! nothing.

/// Takes note of so many bytes.
#[inline]
pub(super) fn examined(bytes: usize) {
    #[cfg(test)]
    COUNT.with(|count| count.set(count.get() + bytes));
    #[cfg(not(test))]
    let _uncounted = bytes;
}

#[cfg(test)]
thread_local! {
    static COUNT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many bytes `act` looks at.
#[cfg(test)]
pub(super) fn count(act: impl FnOnce()) -> usize {
    COUNT.with(|count| count.set(0));
    act();
    COUNT.with(std::cell::Cell::get)
}
