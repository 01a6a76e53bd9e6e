//! Memory sizes as `plimsoll::MemoryLimit` reads them, so that a wrong one is found when the program is compiled.

/// What is wrong with a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeError {
    /// There is nothing.
    Empty,
    /// It does not begin with a number.
    NoNumber,
    /// The unit is none that we know.
    Unit,
    /// More bytes than 64 bits count.
    Overflow,
    /// Nothing fits under a line of no bytes.
    Zero,
}

impl SizeError {
    /// What to write instead.
    pub(crate) fn message(self) -> &'static str {
        match self {
            SizeError::Empty => "the memory line is empty; write a size like \"64MiB\"",
            SizeError::NoNumber => "a size begins with a whole number, like \"64MiB\"",
            SizeError::Unit => "the unit of a size is B, KiB, MiB or GiB, like \"64MiB\"",
            SizeError::Overflow => "this size does not fit in 64 bits",
            SizeError::Zero => "a memory line of 0 bytes holds nothing; write a size like \"64MiB\"",
        }
    }
}

/// The bytes of a size: `64MiB`, `512KiB`, `1GiB`, `65536B` or `65536`.
pub(crate) fn parse(text: &str) -> Result<u64, SizeError> {
    if text.is_empty() {
        return Err(SizeError::Empty);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(SizeError::NoNumber);
    }
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(SizeError::Unit),
    };
    let number: u64 = number.parse().map_err(|_| SizeError::Overflow)?;
    match number.checked_mul(1 << shift) {
        None => Err(SizeError::Overflow),
        Some(0) => Err(SizeError::Zero),
        Some(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests;
