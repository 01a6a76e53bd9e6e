//! A request's head that is kept: its bytes, then eight for each field.

use plimsoll_codec::h1::{FieldSlot, RequestView};
use plimsoll_runtime::{Kind, Lease, OverBudget, Pool};

/// Slots of fields that are copied at once.
const SLOTS_AT_ONCE: usize = 16;

/// Copies a head and where its fields are.
pub(crate) fn keep(pool: &Pool, view: &RequestView<'_>, slots: &[FieldSlot]) -> Result<Lease, OverBudget> {
    let head = view.head();
    let padded = head.len().next_multiple_of(8);
    let mut lease = pool.try_acquire(padded + 8 * slots.len(), Kind::Buffers)?;
    lease.extend(head);
    // Several at once: each copy into the lease is a look at where it ends.
    let (mut bytes, mut filled) = ([0; 8 * SLOTS_AT_ONCE], padded - head.len());
    for slot in slots {
        if filled + 8 > bytes.len() {
            lease.extend(&bytes[..filled]);
            filled = 0;
        }
        bytes[filled..filled + 8].copy_from_slice(&slot.to_bytes());
        filled += 8;
    }
    lease.extend(&bytes[..filled]);
    debug_assert_eq!(lease.len(), padded + 8 * slots.len(), "the lease was made to fit");
    Ok(lease)
}

/// The head of so many bytes, and its fields.
pub(crate) fn parts(kept: &[u8], head_bytes: u16) -> (&[u8], &[[u8; 8]]) {
    let head_bytes = usize::from(head_bytes);
    let (slots, rest) = kept[head_bytes.next_multiple_of(8)..].as_chunks::<8>();
    debug_assert!(rest.is_empty(), "eight bytes for each field");
    (&kept[..head_bytes], slots)
}
