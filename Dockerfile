# Builds stint from source. Needs to pull the golang image; `make image` builds the same without any network. For several platforms:
# docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.2.0 --build-arg REVISION=$(git rev-parse HEAD)
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH VERSION REVISION
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# There is no .git here: without the argument the version is the newest of CHANGELOG.md, with -dev.
RUN VERSION=${VERSION:-$(sed -n 's/^## \([0-9.]*\).*/v\1-dev/p' CHANGELOG.md | head -n 1)} && \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -o /image/stint \
    -ldflags "-s -w -X main.release=$VERSION -X main.revision=$REVISION" ./cmd/stint && \
    mkdir -m 0700 /image/data && cp LICENSE /image/ && \
    cd tools/release && go run . -licenses /image/stint > /image/third-party-licenses

FROM scratch
COPY --from=build --chown=10001:10001 /image/ /
ARG VERSION REVISION
LABEL org.opencontainers.image.title=stint \
    org.opencontainers.image.description="Rate limits and quotas that count exactly" \
    org.opencontainers.image.source=https://github.com/stint-io/stint \
    org.opencontainers.image.documentation=https://github.com/stint-io/stint/tree/main/docs \
    org.opencontainers.image.licenses=Apache-2.0 \
    org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.revision=$REVISION
USER 10001:10001
VOLUME /data
# To listen for others takes STINT_API_CERT and STINT_API_KEY as well, or STINT_INSECURE=true, from whoever runs the image; `serve --dev`
# takes neither.
ENV STINT_DATA_DIR=/data STINT_API_ADDR=0.0.0.0:7400
EXPOSE 7400
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=2s --timeout=2s --start-period=10s CMD ["/stint", "tool", "healthcheck"]
ENTRYPOINT ["/stint"]
CMD ["serve"]
