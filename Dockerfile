# Two stages: build with the toolchain, run with nothing but the binary and its user.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY migrations ./migrations
COPY src ./src
COPY openapi ./openapi
COPY examples ./examples
# Cargo wants the files of every target that the manifest names, also of those that are not built.
COPY tests/suite/main.rs ./tests/suite/main.rs
COPY benches ./benches
RUN cargo build --release --locked --bin ballast && strip target/release/ballast

FROM debian:bookworm-slim
RUN useradd --uid 65532 --user-group --no-create-home --shell /usr/sbin/nologin ballast \
 && install -d -o ballast -g ballast -m 0700 /var/lib/ballast /var/run/ballast
COPY --from=build /src/target/release/ballast /usr/local/bin/ballast
USER 65532:65532
WORKDIR /var/lib/ballast
VOLUME /var/lib/ballast
EXPOSE 7443
ENTRYPOINT ["/usr/local/bin/ballast"]
CMD ["serve", "--bind-address", "0.0.0.0", "--database-url", "sqlite:///var/lib/ballast/ballast.db", "--cert-dir", "/var/lib/ballast/certs"]
