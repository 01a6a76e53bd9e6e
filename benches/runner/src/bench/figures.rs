//! Medians and ratios.

/// The middle and the ends of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// None of no values.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let upper = values.len() / 2;
        let lower = (values.len() - 1) / 2;
        Some(Spread { median: f64::midpoint(values[lower], values[upper]), min, max })
    }
}

/// The median of `values[i] / base[i]`: what disturbed a round disturbed both. None if there is no round that both
/// have.
pub(super) fn median_ratio(values: impl IntoIterator<Item = f64>, base: impl IntoIterator<Item = f64>) -> Option<f64> {
    let ratios = values.into_iter().zip(base).map(|(value, base)| value / base);
    Spread::of(ratios.filter(|ratio| ratio.is_finite())).map(|ratios| ratios.median)
}

#[cfg(test)]
mod tests;
