//! What takes the place of the function, and what is refused.

use super::*;

fn expanded(item: TokenStream) -> String {
    expand(TokenStream::new(), item).to_string()
}

#[test]
fn patterns_stay_inside_and_attributes_outside() {
    let item = quote! { #[doc = "a"] pub async fn slow(Path(name): Path<String>, (): ()) -> u8 { 1 } };
    let wanted = quote! {
        #[doc = "a"]
        pub fn slow(argument_0: Path<String>, argument_1: ())
            -> impl ::core::future::Future<Output = u8> + ::core::marker::Send + 'static
        {
            async fn slow(Path(name): Path<String>, (): ()) -> u8 { 1 }
            ::plimsoll::__private::on_worker(move || slow(argument_0, argument_1))
        }
    };
    assert_eq!(expanded(item), wanted.to_string());
    assert!(expanded(quote! { async fn none() {} }).contains("Output = ()"));
}

#[test]
fn what_cannot_be_sent_is_refused_and_stays() {
    for (item, why) in [
        (quote! { fn slow() {} }, "must be an `async fn`"),
        (quote! { async fn slow(&self) {} }, "must not take `self`"),
        (quote! { async fn slow(name: &str) {} }, "take it by value"),
        (quote! { async fn slow<T>(name: T) {} }, "must not be generic"),
        (quote! { async fn slow(name: impl Copy) {} }, "must not be generic"),
        (quote! { struct Slow; }, "belongs on an `async fn`"),
    ] {
        let expanded = expanded(item.clone());
        assert!(expanded.contains(why) && expanded.ends_with(&item.to_string()), "{expanded}");
    }
    let refused = expand(quote! { memory = "1MiB" }, quote! { async fn slow() {} }).to_string();
    assert!(refused.contains("takes no arguments"), "{refused}");
}
