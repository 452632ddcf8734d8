# One static binary in an empty image. The last stage builds it from source; an engine that
# can fetch no images builds the stage prebuilt, from the binary of `make build`.

FROM scratch AS prebuilt
COPY --chown=65532:65532 tools/compose/volumes /var/lib/podfall
COPY bin/podfall /podfall
USER 65532:65532
ENV PODFALL_DATA=/var/lib/podfall/cluster
ENTRYPOINT ["/podfall"]

FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN make build

FROM scratch
COPY --chown=65532:65532 tools/compose/volumes /var/lib/podfall
COPY --from=build /src/bin/podfall /podfall
USER 65532:65532
ENV PODFALL_DATA=/var/lib/podfall/cluster
ENTRYPOINT ["/podfall"]
