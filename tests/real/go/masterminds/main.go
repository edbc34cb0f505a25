// Command masterminds answers whether a version lies in a range, as Flux decides it: the range by Masterminds semver,
// the version by fluxcd/pkg/version. It reads one JSON object a line and writes one for each.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"

	"github.com/Masterminds/semver/v3"
	"github.com/fluxcd/pkg/version"
)

type question struct {
	Range   string `json:"range"`
	Version string `json:"version"`
}

// answer has Valid where both the range and the version parse.
type answer struct {
	Valid bool   `json:"valid"`
	Match bool   `json:"match"`
	Error string `json:"error"`
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var q question
		if err := in.Decode(&q); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		if err := out.Encode(check(q)); err != nil {
			log.Fatal(err)
		}
	}
}

func check(q question) answer {
	constraint, err := semver.NewConstraint(q.Range)
	if err != nil {
		return answer{Error: "range: " + err.Error()}
	}
	v, err := version.ParseVersion(q.Version)
	if err != nil {
		return answer{Error: "version: " + err.Error()}
	}
	return answer{Valid: true, Match: constraint.Check(v)}
}
