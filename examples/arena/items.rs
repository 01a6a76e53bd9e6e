//! The items of `/json`, embedded in the program and serialised anew for each request.

use std::sync::LazyLock;

use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// Bytes that an item takes in an answer, about: only a first size for the buffer.
const ITEM_BYTES: usize = 224;

static ITEMS: LazyLock<Vec<Item>> =
    LazyLock::new(|| serde_json::from_str(include_str!("items.json")).expect("the embedded items are well-formed"));

#[derive(Debug, Deserialize)]
struct Item {
    id: u32,
    name: &'static str,
    category: &'static str,
    price: i64,
    quantity: i64,
    active: bool,
    tags: Vec<&'static str>,
    rating: Rating,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Rating {
    score: u32,
    count: u32,
}

/// An item as it is answered.
#[derive(Serialize)]
struct Priced<'a> {
    id: u32,
    name: &'a str,
    category: &'a str,
    price: i64,
    quantity: i64,
    active: bool,
    tags: &'a [&'static str],
    rating: Rating,
    /// Price x quantity x the request's factor.
    total: i64,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(serialize_with = "priced")]
    items: (&'a [Item], i64),
    count: usize,
}

/// Reads the embedded items, so that no request has to.
pub(crate) fn load() {
    LazyLock::force(&ITEMS);
}

/// How many items there are.
pub(crate) fn len() -> usize {
    ITEMS.len()
}

/// The JSON text of the first `count` items, with totals multiplied by `factor`. `None` when there are not as many.
pub(crate) fn json(count: usize, factor: i64) -> Option<Vec<u8>> {
    let items = ITEMS.get(..count)?;
    let mut text = Vec::with_capacity(32 + count * ITEM_BYTES);
    serde_json::to_writer(&mut text, &Answer { items: (items, factor), count }).ok()?;
    Some(text)
}

fn priced<S: Serializer>(&(items, factor): &(&[Item], i64), serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(items.iter().map(|item| Priced {
        id: item.id,
        name: item.name,
        category: item.category,
        price: item.price,
        quantity: item.quantity,
        active: item.active,
        tags: &item.tags,
        rating: item.rating,
        total: item.price.wrapping_mul(item.quantity).wrapping_mul(factor),
    }))
}
