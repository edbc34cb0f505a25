module untar

go 1.26.0

require github.com/fluxcd/pkg/tar v1.2.0

require github.com/cyphar/filepath-securejoin v0.6.1 // indirect
