# docker build -t ballast:0.1.0 .
# docker run -p 7443:7443 -v ballast:/var/lib/ballast ballast:0.1.0
# The admin's kubeconfig is then in /var/lib/ballast/certs.

# Stage 1 builds with the toolchain.
FROM rust:1.95-bookworm AS build
WORKDIR /src

# The dependencies are a layer of their own, which is built again only when the manifests change.
# Cargo wants the files of all targets that the manifest names, so each gets an empty one.
COPY Cargo.toml Cargo.lock ./
# How the C code of SQLite is built.
COPY .cargo ./.cargo
RUN mkdir -p src tests/suite tests/sim benches/load \
 && echo 'fn main() {}' | tee src/main.rs tests/suite/main.rs tests/sim/main.rs \
      benches/engine_pass.rs benches/https.rs benches/registry.rs benches/store.rs \
      benches/engine_fleet.rs benches/load/main.rs > src/lib.rs
RUN cargo build --release --locked --bin ballast

COPY migrations ./migrations
COPY examples ./examples
COPY src ./src
# Files of the build context may be older than the layer above, so Cargo is told that they are new.
RUN touch src/lib.rs src/main.rs \
 && cargo build --release --locked --bin ballast \
 && strip target/release/ballast

# Stage 2 has nothing but the binary and its user.
FROM debian:bookworm-slim
RUN useradd --uid 65532 --user-group --no-create-home --shell /usr/sbin/nologin ballast \
 && install -d -o ballast -g ballast -m 0700 /var/lib/ballast /var/run/ballast
COPY --from=build /src/target/release/ballast /usr/local/bin/ballast
USER 65532:65532
WORKDIR /var/lib/ballast
VOLUME /var/lib/ballast
EXPOSE 7443
# In the environment, so that `ballast backup` and `ballast health` in the container find the same.
ENV BALLAST_BIND_ADDRESS=0.0.0.0 \
    BALLAST_DATABASE_URL=sqlite:///var/lib/ballast/ballast.db \
    BALLAST_CERT_DIR=/var/lib/ballast/certs
# Kubernetes does not look at this; the manifests have probes.
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 CMD ["ballast", "health"]
ENTRYPOINT ["/usr/local/bin/ballast"]
CMD ["serve"]
