//! The arguments of the attributes: `key = value` pairs, parsed once into validated types.

use proc_macro2::{Span, TokenStream};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit, LitInt, LitStr, MetaNameValue, Result, Token};

use crate::size;

/// What `#[plimsoll::main(..)]` says.
#[derive(Debug, Default)]
pub(crate) struct MainArguments {
    /// A size that was checked.
    pub(crate) memory: Option<String>,
    /// From 1 to [`WORKERS_MAX`].
    pub(crate) workers: Option<usize>,
    /// One of [`DRIVERS_MAIN`].
    pub(crate) driver: Option<String>,
}

/// What `#[plimsoll::test(..)]` says.
#[derive(Debug, Default)]
pub(crate) struct TestArguments {
    /// A size that was checked.
    pub(crate) memory: Option<String>,
    /// From 1 to [`WORKERS_MAX`].
    pub(crate) workers: Option<usize>,
    /// Some of [`DRIVERS_TEST`], each once, with commas between them and no blanks.
    pub(crate) drivers: Option<String>,
    pub(crate) seed: Option<u64>,
    /// One of [`FAULTS`]; then `drivers` is the simulation alone.
    pub(crate) faults: Option<String>,
    /// At least 1.
    pub(crate) worlds: Option<u64>,
}

impl MainArguments {
    pub(crate) fn parse(tokens: TokenStream) -> Result<MainArguments> {
        let mut arguments = MainArguments::default();
        each(tokens, |key, value| {
            match key {
                "memory" => arguments.memory = Some(memory(value)?),
                "workers" => arguments.workers = Some(workers(value)?),
                "driver" => arguments.driver = Some(driver(value)?),
                _ => return Ok(Known::No("memory, workers and driver")),
            }
            Ok(Known::Yes)
        })?;
        Ok(arguments)
    }
}

impl TestArguments {
    pub(crate) fn parse(tokens: TokenStream) -> Result<TestArguments> {
        let mut arguments = TestArguments::default();
        each(tokens, |key, value| {
            match key {
                "memory" => arguments.memory = Some(memory(value)?),
                "workers" => arguments.workers = Some(workers(value)?),
                "drivers" => arguments.drivers = Some(drivers(value)?),
                "seed" => arguments.seed = Some(integer(value, "a number")?.base10_parse()?),
                "faults" => arguments.faults = Some(faults(value)?),
                "worlds" => arguments.worlds = Some(worlds(value)?),
                _ => return Ok(Known::No("memory, workers, drivers, seed, faults and worlds")),
            }
            Ok(Known::Yes)
        })?;
        match (&arguments.faults, arguments.drivers.as_deref()) {
            (Some(_), None) => arguments.drivers = Some("sim".to_owned()),
            (Some(_), Some(drivers)) if drivers != "sim" => {
                let why =
                    "faults happen in the simulation alone: leave `drivers` out, and have another test without them";
                return Err(Error::new(Span::call_site(), why));
            }
            _ => {}
        }
        Ok(arguments)
    }
}

/// Whether a key is known.
enum Known {
    Yes,
    /// The keys that are.
    No(&'static str),
}

/// Gives each pair to `take`; refuses what is no pair, a key that is there twice and a key that `take` does not know.
/// All errors are reported, not only the first.
fn each(tokens: TokenStream, mut take: impl FnMut(&str, &Expr) -> Result<Known>) -> Result<()> {
    let pairs = Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse2(tokens)?;
    let mut seen: Vec<String> = Vec::new();
    let mut errors: Option<Error> = None;
    for pair in &pairs {
        let key = pair.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let taken = if seen.contains(&key) {
            Err(Error::new(pair.path.span(), format!("`{key}` is given twice")))
        } else {
            match take(&key, &pair.value) {
                Ok(Known::Yes) => Ok(()),
                Ok(Known::No(keys)) => {
                    Err(Error::new(pair.path.span(), format!("there is no such argument; there are {keys}")))
                }
                Err(error) => Err(error),
            }
        };
        seen.push(key);
        if let Err(error) = taken {
            match &mut errors {
                Some(errors) => errors.combine(error),
                None => errors = Some(error),
            }
        }
    }
    errors.map_or(Ok(()), Err)
}

fn memory(value: &Expr) -> Result<String> {
    let text = string(value, "a size in quotes, like \"64MiB\"")?;
    match size::parse(&text.value()) {
        Ok(_) => Ok(text.value()),
        Err(error) => Err(Error::new(text.span(), error.message())),
    }
}

fn workers(value: &Expr) -> Result<usize> {
    let number = integer(value, "a number of workers")?;
    match number.base10_parse() {
        Ok(workers) if (1..=WORKERS_MAX).contains(&workers) => Ok(workers),
        _ => Err(Error::new(number.span(), format!("there may be 1 to {WORKERS_MAX} workers"))),
    }
}

fn driver(value: &Expr) -> Result<String> {
    let text = string(value, "a driver in quotes")?;
    known_driver(&text.value(), &DRIVERS_MAIN, text.span())?;
    Ok(text.value())
}

fn drivers(value: &Expr) -> Result<String> {
    let text = string(value, "drivers in quotes, like \"mio,sim\"")?;
    let list = text.value();
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    for (at, name) in names.iter().enumerate() {
        known_driver(name, &DRIVERS_TEST, text.span())?;
        if names[..at].contains(name) {
            return Err(Error::new(text.span(), format!("`{name}` is there twice")));
        }
    }
    Ok(names.join(","))
}

fn faults(value: &Expr) -> Result<String> {
    let text = string(value, "faults in quotes, like \"wild\"")?;
    if FAULTS.contains(&&*text.value()) {
        return Ok(text.value());
    }
    Err(Error::new(text.span(), format!("there are no such faults; there are {}", FAULTS.join(", "))))
}

fn worlds(value: &Expr) -> Result<u64> {
    let number = integer(value, "a number of worlds")?;
    match number.base10_parse() {
        Ok(worlds @ 1..) => Ok(worlds),
        _ => Err(Error::new(number.span(), "there must be a world")),
    }
}

fn known_driver(name: &str, known: &[&str], span: Span) -> Result<()> {
    if known.contains(&name) {
        return Ok(());
    }
    Err(Error::new(span, format!("there is no driver `{name}` here; there are {}", known.join(", "))))
}

fn string(value: &Expr, wanted: &str) -> Result<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text.clone()),
        _ => Err(Error::new(value.span(), format!("this must be {wanted}"))),
    }
}

fn integer<'a>(value: &'a Expr, wanted: &str) -> Result<&'a LitInt> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => Ok(number),
        _ => Err(Error::new(value.span(), format!("this must be {wanted}, without quotes"))),
    }
}

/// The most workers that a runtime has.
const WORKERS_MAX: usize = 1_024;
/// Drivers that a program runs on.
const DRIVERS_MAIN: [&str; 3] = ["auto", "uring", "mio"];
/// What goes wrong in simulated worlds: the names of what `plimsoll::sim::Faults` gives.
const FAULTS: [&str; 3] = ["clean", "mild", "wild"];
/// Drivers that a test runs on.
const DRIVERS_TEST: [&str; 3] = ["uring", "mio", "sim"];

#[cfg(test)]
mod tests;
