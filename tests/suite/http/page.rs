//! The page of a standalone server: its files are public, the API requires authentication, and
//! browsers receive indented JSON.

use http::Method;

use crate::support::server::TestServer;

#[tokio::test]
async fn the_page_is_for_everybody_and_the_api_is_not() {
    let server = TestServer::start().await;
    let nobody = server.nobody();
    let page = nobody.connect().await.send(Method::GET, "/ui/", &[], "").await;
    assert_eq!((page.code.as_u16(), page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let of_everybody = [("/ui", 308), ("/ui/main.js", 200), ("/ui/nothing", 404), ("/favicon.ico", 200)];
    for (path, code) in of_everybody.into_iter().chain([("/apis", 401), ("/uix", 401)]) {
        // A rejected client must reconnect (AN11).
        let reply = nobody.connect().await.send(Method::GET, path, &[], "").await;
        assert_eq!(reply.code, code, "{path}");
    }
    let posted = nobody.connect().await.send(Method::POST, "/ui/", &[], "x").await;
    assert_eq!(posted.code, 405);
    server.stop().await;
}

#[tokio::test]
async fn ct8_a_browser_gets_indented_json_only_for_who_looks_at_it() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let browser = ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)");
    for (mode, is_indented) in
        [(None, true), (Some("navigate"), true), (Some("cors"), false), (Some("same-origin"), false)]
    {
        let headers: Vec<(&str, &str)> =
            [Some(browser), mode.map(|mode| ("sec-fetch-mode", mode))].into_iter().flatten().collect();
        let reply = admin.send(Method::GET, "/apis", &headers, "").await;
        assert_eq!(reply.text().starts_with("{\n"), is_indented, "{mode:?}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "no other site may read it");
    }
    server.stop().await;
}
