//! What types names and values become, and what is said of those that do not fit.

use ::core::fmt::Debug;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Pairs, Plus, decode};

fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    Pairs::of_form(text.as_bytes()).and_then(Pairs::into_value).map_err(|error| error.to_string())
}

#[track_caller]
fn reads<T: DeserializeOwned + PartialEq + Debug>(text: &str, value: T) {
    assert_eq!(read::<T>(text), Ok(value), "{text}");
}

#[track_caller]
fn refuses<T: DeserializeOwned + PartialEq + Debug>(text: &str, why: &str) {
    match read::<T>(text) {
        Err(error) => assert!(error.contains(why), "{text}: {error}"),
        Ok(value) => panic!("{text}: {value:?}"),
    }
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Order {
    Newest,
    Oldest,
    By(String),
}

#[derive(Debug, Deserialize, PartialEq)]
struct Id(u32);

#[derive(Debug, Deserialize, PartialEq)]
struct Page {
    id: Id,
    order: Option<Order>,
    #[serde(default)]
    tag: Vec<String>,
    share: Option<f64>,
    #[serde(default)]
    all: bool,
}

#[test]
fn fields_have_the_types_that_were_asked_for() {
    let page = Page { id: Id(7), order: None, tag: Vec::new(), share: None, all: false };
    reads("id=7", page);
    let tag = ["a b", "c&d", ""].map(str::to_owned).to_vec();
    let page = Page { id: Id(7), order: Some(Order::Oldest), tag, share: Some(-0.5), all: true };
    reads("tag=a+b&all=true&id=%37&unknown=1&order=oldest&tag=c%26d&share=-0.5&tag", page);
}

#[test]
fn other_shapes_are_there_too() {
    reads("a=1&b=2&a=3", (1_u8, 3_i64, 2_u64));
    reads("a=1&b=2", BTreeMap::from([("a".to_owned(), 1_u8), ("b".to_owned(), 2)]));
    reads("a=1&b=2&a=3", BTreeMap::from([('a', vec![1, 3]), ('b', vec![2])]));
    reads("a=x", 'x');
    reads("a=x+y", "x y".to_owned());
    reads("a=9", Id(9));
    reads("a=newest", Order::Newest);
    reads("", BTreeMap::<String, String>::new());
    reads("", None::<u8>);
    reads("a=1", Some(1_u8));
    reads("a=1", ());
}

#[test]
fn what_does_not_fit_is_named() {
    refuses::<Page>("", "missing field `id`");
    refuses::<Page>("id=seven", "`id`: invalid digit");
    refuses::<Page>("id=-1", "`id`: invalid digit");
    refuses::<Page>("id=1&id=2", "`id`: it is there 2 times");
    refuses::<Page>("id=1&order=best", "`order`: unknown variant `best`, expected one of `newest`, `oldest`, `by`");
    refuses::<Page>("id=1&order=by", "has fields");
    refuses::<Page>("id=1&all=yes", "`all`: ");
    refuses::<Page>("id=1&tag=%ff", "`tag`: it is not UTF-8");
    refuses::<u8>("", "there is no value");
    refuses::<u8>("a=1&b=2", "several values");
    refuses::<(u8, u8)>("a=1", "invalid length 1");
    refuses::<(u8, u8)>("a=1&b=2&c=3", "invalid length 3");
}

#[test]
fn a_plus_is_itself_in_a_path() {
    let both = |raw: &str| [Plus::Plus, Plus::Space].map(|plus| decode(raw.as_bytes(), plus).expect("it is UTF-8"));
    assert_eq!(both("a+b%2Bc%20d"), ["a+b+c d", "a b+c d"]);
    assert_eq!(both("+%2"), ["+%2", " %2"], "what is no code stands for itself");
    assert_eq!(both("%e2%82%ac"), ["\u{20ac}", "\u{20ac}"]);
    assert!(decode(b"%e2%82", Plus::Plus).is_err());
}
