# The image of the action. Its builder is podman, buildah or docker with BuildKit; it fetches Python packages, and the
# sources of kustomize.
#
#   BASE          any image with glibc, Python 3.11 or newer and its venv module; a release pins it by digest
#   GOLANG        the image with Go that kustomize is built in; nothing else of it is in the result
#   KUSTOMIZE     the version of kustomize; Go's checksum database vouches for its sources
#   REQUIREMENTS  runtime, or kms: with the clients of the cloud key services
#   --build-context kustomize=DIR   a folder with the program `kustomize`, in place of one built here
ARG BASE=docker.io/library/python:3.13-slim-trixie
ARG GOLANG=docker.io/library/golang:1.26.8-trixie
ARG KUSTOMIZE=v5.8.2
ARG REQUIREMENTS=runtime

# The builder's platform compiles for that of the image. Go leaves what is for another one in a folder of its own.
FROM --platform=${BUILDPLATFORM} ${GOLANG} AS go
ARG KUSTOMIZE
ARG TARGETARCH
RUN GOPATH=/made CGO_ENABLED=0 GOOS=linux GOARCH=${TARGETARCH} GOTOOLCHAIN=local GOSUMDB=sum.golang.org \
    go install -trimpath -ldflags '-s -w' sigs.k8s.io/kustomize/kustomize/v5@${KUSTOMIZE} \
 && find /made/bin -name kustomize -type f -exec mv {} /made/kustomize ';'

FROM scratch AS kustomize
COPY --from=go /made/kustomize /

FROM ${BASE} AS tools
WORKDIR /source
COPY requirements/build.txt requirements/
RUN python3 -m venv /tools \
 && /tools/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --only-binary :all: -r requirements/build.txt \
 && python3 -m venv --without-pip /opt/venv

# The dependencies have a layer of their own, which a change of the project leaves as it is. Bytecode is compiled here,
# for a container would do it anew in every run, and so that each build writes the same: without the sources' times,
# with one hash seed, in one process.
FROM tools AS dependencies
ARG REQUIREMENTS
COPY requirements/${REQUIREMENTS}.txt requirements/
RUN /tools/bin/python -m pip --python /opt/venv/bin/python install --quiet --disable-pip-version-check --no-compile --require-hashes --only-binary :all: -r requirements/${REQUIREMENTS}.txt \
 && PYTHONHASHSEED=0 /opt/venv/bin/python -m compileall -q -j 1 --invalidation-mode unchecked-hash /opt/venv/lib

FROM tools AS project
COPY pyproject.toml README.md ./
COPY workflows workflows
COPY ci_automation ci_automation
RUN /tools/bin/python -m pip wheel --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /tools/bin/python -m pip --python /opt/venv/bin/python install --quiet --disable-pip-version-check --no-index --no-deps --no-compile --no-warn-script-location --root /project /wheels/*.whl \
 && PYTHONHASHSEED=0 /opt/venv/bin/python -m compileall -q -j 1 --invalidation-mode unchecked-hash -s /project /project/opt/venv/lib

FROM dependencies AS bill
ARG REQUIREMENTS
COPY --from=project /project/ /
COPY --from=kustomize / /opt/flux-manifests/bin/
COPY image/sbom.py image/
RUN mkdir -p /bill/opt/flux-manifests \
 && /tools/bin/python image/sbom.py /opt/venv /opt/flux-manifests/bin ${REQUIREMENTS} > /bill/opt/flux-manifests/sbom.json

FROM ${BASE}
LABEL org.opencontainers.image.title="flux-manifests" \
      org.opencontainers.image.description="Keeps Flux itself current on a fleet of clusters that read it from a signed OCI artifact." \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=kustomize / /opt/flux-manifests/bin/
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=project /project/ /
COPY --from=bill /bill/ /
# A job's environment is the container's: -I, and absolute paths, leave no say in what runs to PYTHONPATH, PATH or the
# files of the workspace.
ENTRYPOINT ["/opt/venv/bin/python", "-I", "-u", "-m", "ci_automation"]
