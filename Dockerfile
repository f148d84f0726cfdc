# docker build -t ballast:0.2.0 .
# docker run -p 7443:7443 -v ballast:/var/lib/ballast ballast:0.2.0
# The admin's kubeconfig is then in /var/lib/ballast/certs.

# Stage 1 keeps the manifests and empties the sources, so that it changes only with the manifests.
FROM rust:1.95-bookworm AS manifests
WORKDIR /src
COPY . .
# Cargo wants a file for each target that a manifest names.
RUN find src crates tests benches xtask -type f ! -name Cargo.toml ! -name main.rs ! -name lib.rs \
      ! -path 'benches/*.rs' ! \( -path 'tests/suite/*.rs' ! -path 'tests/suite/*/*' \) -delete \
 && find src crates tests benches xtask -name '*.rs' -exec sh -c 'echo "fn main() { }" > "$1"' _ {} \; \
 && rm -rf docs examples migrations openapi README.md deploy

# Stage 2 builds with the toolchain. The dependencies are a layer of their own.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY --from=manifests /src ./
RUN cargo build --release --locked --bin ballast

COPY migrations ./migrations
COPY examples ./examples
COPY crates ./crates
COPY src ./src
# Files of the build context may be older than the layer above, so Cargo is told that they are new.
RUN find src crates -name '*.rs' -exec touch {} + \
 && cargo build --release --locked --bin ballast \
 && strip target/release/ballast

# Stage 3 has the binary, its user and the CA certificates of the system, which `--otlp-endpoint`,
# PostgreSQL and members may need.
FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 65532 --user-group --no-create-home --shell /usr/sbin/nologin ballast \
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
