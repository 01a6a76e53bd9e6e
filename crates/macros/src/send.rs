//! An `async fn` whose future stays on its worker, and can be sent all the same.
//!
//! ```text
//! fn name(argument_0: A) -> impl Future<Output = T> + Send {
//!     async fn name(pattern: A) -> T { body }
//!     ::plimsoll::__private::on_worker(move || name(argument_0))
//! }
//! ```

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Error, FnArg, Ident, ItemFn, Result, ReturnType, Type, Visibility};

/// Expands `#[plimsoll::send]`. An error comes beside the function as it was written, so that its callers are judged
/// as if it were right.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = Error::new(error.span(), "this attribute belongs on an `async fn`").into_compile_error();
            return quote! { #error #item };
        }
    };
    match check(&arguments, &function) {
        Ok(types) => sent(&function, &types),
        Err(error) => {
            let error = error.into_compile_error();
            quote! { #error #item }
        }
    }
}

fn sent(function: &ItemFn, types: &[&Type]) -> TokenStream {
    let names: Vec<Ident> = (0..types.len()).map(|at| format_ident!("argument_{at}")).collect();
    let ItemFn { attrs, vis, sig, .. } = function;
    let name = &sig.ident;
    let output = match &sig.output {
        ReturnType::Default => quote! { () },
        ReturnType::Type(_, output) => quote! { #output },
    };
    let inside = ItemFn { attrs: Vec::new(), vis: Visibility::Inherited, ..function.clone() };
    quote! {
        #(#attrs)*
        #vis fn #name(#(#names: #types),*)
            -> impl ::core::future::Future<Output = #output> + ::core::marker::Send + 'static
        {
            #inside
            ::plimsoll::__private::on_worker(move || #name(#(#names),*))
        }
    }
}

/// The types of the parameters, if all is as it must be.
fn check<'f>(arguments: &TokenStream, function: &'f ItemFn) -> Result<Vec<&'f Type>> {
    let signature = &function.sig;
    if !arguments.is_empty() {
        return Err(Error::new(arguments.span(), "`#[plimsoll::send]` takes no arguments"));
    }
    if signature.asyncness.is_none() {
        return Err(Error::new(signature.fn_token.span, "the function must be an `async fn`"));
    }
    if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
        return Err(Error::new(signature.generics.span(), "the function must not be generic"));
    }
    signature.inputs.iter().map(parameter).collect()
}

fn parameter(input: &FnArg) -> Result<&Type> {
    match input {
        FnArg::Receiver(receiver) => {
            Err(Error::new(receiver.span(), "the function must not take `self`: take the value as a parameter"))
        }
        FnArg::Typed(parameter) => match &*parameter.ty {
            Type::Reference(reference) => {
                Err(Error::new(reference.span(), "the future may outlive what is borrowed: take it by value"))
            }
            Type::ImplTrait(generic) => Err(Error::new(generic.span(), "the function must not be generic")),
            other => Ok(other),
        },
    }
}

#[cfg(test)]
mod tests;
