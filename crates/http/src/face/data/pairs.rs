//! Names and values, decoded, as a source of serde.
//!
//! All values are text: a number is parsed where a type asks for one. A name that comes several times is a sequence. An
//! enum without fields is its variant's name.

use ::core::fmt::Display;
use std::vec;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, DeserializeSeed, EnumAccess, IntoDeserializer, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::base::data_error::FieldError;

impl de::Error for FieldError {
    fn custom<T: Display>(message: T) -> Self {
        Self { name: None, message: message.to_string().into() }
    }
}

/// How a `+` is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plus {
    /// As itself: in a path.
    #[cfg_attr(not(feature = "router"), expect(dead_code, reason = "only routes have parameters"))]
    Plus,
    /// As a space: in a query and a form.
    Space,
}

/// Undoes percent-encoding.
pub(crate) fn decode(raw: &[u8], plus: Plus) -> Result<String, FieldError> {
    let decode = |raw: &[u8]| plimsoll_codec::query::decode(raw).collect::<Vec<u8>>();
    let bytes = match plus {
        Plus::Space => decode(raw),
        Plus::Plus => {
            let mut bytes = Vec::with_capacity(raw.len());
            for (at, part) in raw.split(|byte| *byte == b'+').enumerate() {
                bytes.extend((at > 0).then_some(b'+'));
                bytes.extend(decode(part));
            }
            bytes
        }
    };
    String::from_utf8(bytes).map_err(|_| FieldError { name: None, message: "it is not UTF-8".into() })
}

/// Values by name, in the order of their names' first coming.
#[derive(Debug, Default)]
pub(crate) struct Pairs(Vec<(String, Vec<String>)>);

impl Pairs {
    pub(crate) fn push(&mut self, name: String, value: String) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => self.0.push((name, vec![value])),
        }
    }

    /// Those of a query or a form.
    pub(crate) fn of_form(text: &[u8]) -> Result<Self, FieldError> {
        let mut pairs = Self::default();
        for (name, value) in plimsoll_codec::query::pairs(text) {
            let name = decode(name, Plus::Space)?;
            let value = decode(value, Plus::Space).map_err(|error| error.of(&name))?;
            pairs.push(name, value);
        }
        Ok(pairs)
    }

    /// A value of the program's type.
    pub(crate) fn into_value<T: DeserializeOwned>(self) -> Result<T, FieldError> {
        T::deserialize(self)
    }

    /// The values alone, in order.
    fn values(self) -> vec::IntoIter<Value> {
        let values: Vec<_> = self
            .0
            .into_iter()
            .flat_map(|(name, values)| {
                values.into_iter().map(move |value| Value { name: name.clone(), values: vec![value] })
            })
            .collect();
        values.into_iter()
    }

    /// The only value.
    fn only(self) -> Result<Value, FieldError> {
        let mut values = self.values();
        match (values.next(), values.next()) {
            (Some(value), None) => Ok(value),
            (None, _) => Err(de::Error::custom("there is no value")),
            _ => Err(de::Error::custom("there are several values: ask for a struct, a map or a tuple")),
        }
    }
}

/// Forwards to the only value.
macro_rules! only {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
            self.only()?.$method(visitor)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Pairs {
    type Error = FieldError;

    only! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        let fields = self.0.into_iter().map(|(name, values)| (name.clone(), Value { name, values }));
        visitor.visit_map(MapDeserializer::new(fields))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        if self.0.is_empty() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_seq(SeqDeserializer::new(self.values()))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, FieldError> {
        let mut values = SeqDeserializer::new(self.values());
        let value = visitor.visit_seq(&mut values)?;
        values.end().map(|()| value)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.only()?.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! { map struct identifier ignored_any }
}

/// What was given for one name.
#[derive(Debug)]
struct Value {
    name: String,
    /// At least one.
    values: Vec<String>,
}

impl Value {
    fn one(&mut self) -> Result<String, FieldError> {
        match self.values.len() {
            1 => Ok(self.values.swap_remove(0)),
            several => Err(de::Error::custom(format_args!("it is there {several} times"))),
        }
    }

    /// Parses it.
    fn parsed<T: ::core::str::FromStr<Err: Display>>(&mut self) -> Result<T, FieldError> {
        self.one()?.parse().map_err(de::Error::custom)
    }

    /// Does it, and names the field in an error.
    fn named<T>(mut self, act: impl FnOnce(&mut Self) -> Result<T, FieldError>) -> Result<T, FieldError> {
        act(&mut self).map_err(|error| error.of(&self.name))
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
            self.named(|value| visitor.$visit(value.parsed()?))
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Value {
    type Error = FieldError;

    parsed! {
        deserialize_bool visit_bool,
        deserialize_i8 visit_i8, deserialize_i16 visit_i16, deserialize_i32 visit_i32, deserialize_i64 visit_i64,
        deserialize_i128 visit_i128,
        deserialize_u8 visit_u8, deserialize_u16 visit_u16, deserialize_u32 visit_u32, deserialize_u64 visit_u64,
        deserialize_u128 visit_u128,
        deserialize_f32 visit_f32, deserialize_f64 visit_f64,
        deserialize_char visit_char
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        self.named(|value| visitor.visit_string(value.one()?))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        let Self { name, values } = self;
        visitor.visit_seq(SeqDeserializer::new(
            values.into_iter().map(|value| Self { name: name.clone(), values: vec![value] }),
        ))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.named(|value| visitor.visit_enum(Variant(value.one()?)))
    }

    forward_to_deserialize_any! {
        str string bytes byte_buf unit_struct tuple tuple_struct map struct identifier ignored_any
    }
}

impl IntoDeserializer<'_, FieldError> for Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// A variant without fields, by its name.
struct Variant(String);

impl<'de> EnumAccess<'de> for Variant {
    type Error = FieldError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), FieldError> {
        let name: de::value::StringDeserializer<FieldError> = self.0.clone().into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant {
    type Error = FieldError;

    fn unit_variant(self) -> Result<(), FieldError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, FieldError> {
        Err(self.has_fields())
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, FieldError> {
        Err(self.has_fields())
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, FieldError> {
        Err(self.has_fields())
    }
}

impl Variant {
    fn has_fields(&self) -> FieldError {
        de::Error::custom(format_args!("the variant `{}` has fields, which text has not", self.0))
    }
}

#[cfg(test)]
mod tests;
