# Builds stint from source. Needs to pull the golang image; `make image` builds the same without any network.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o /image/stint ./cmd/stint && mkdir -m 0700 /image/data

FROM scratch
COPY --from=build --chown=10001:10001 /image/ /
USER 10001:10001
VOLUME /data
# To listen for others takes STINT_API_CERT and STINT_API_KEY as well, or STINT_INSECURE=true, from whoever runs the image.
ENV STINT_DATA_DIR=/data STINT_API_ADDR=0.0.0.0:7400
EXPOSE 7400
HEALTHCHECK --interval=2s --timeout=2s --start-period=10s CMD ["/stint", "tool", "healthcheck"]
ENTRYPOINT ["/stint"]
CMD ["serve"]
