// Command renderer prints what `flux install --export` prints, with Flux's own code: pkg/manifestgen/install.
//
// Its argument is a folder with one folder a release, each with the files of the release's manifests bundle. It reads one
// JSON object a line and writes one for each.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/fluxcd/flux2/v2/pkg/manifestgen/install"
)

// question has the flags of flux install by their own names; components-extra are among the components.
type question struct {
	Version            string   `json:"version"`
	Components         []string `json:"components"`
	Namespace          string   `json:"namespace"`
	Registry           string   `json:"registry"`
	ImagePullSecret    string   `json:"image-pull-secret"`
	WatchAllNamespaces bool     `json:"watch-all-namespaces"`
	NetworkPolicy      bool     `json:"network-policy"`
	LogLevel           string   `json:"log-level"`
	ClusterDomain      string   `json:"cluster-domain"`
	TolerationKeys     []string `json:"toleration-keys"`
}

type answer struct {
	Text  string `json:"text"`
	Error string `json:"error"`
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: renderer FOLDER < questions > answers")
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var q question
		if err := in.Decode(&q); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		var a answer
		text, err := render(filepath.Join(os.Args[1], q.Version), q)
		if a.Text = text; err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			log.Fatal(err)
		}
	}
}

// render leaves the release's files alone: install.Generate writes beside those that it reads. A panic is an answer too:
// kustomize does so on some names.
func render(release string, q question) (text string, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	folder, err := os.MkdirTemp("", "renderer")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	if err := os.CopyFS(folder, os.DirFS(release)); err != nil {
		return "", err
	}
	options := install.MakeDefaultOptions()
	options.Version = q.Version
	options.Components = q.Components
	options.Namespace = q.Namespace
	options.Registry = q.Registry
	options.ImagePullSecret = q.ImagePullSecret
	options.WatchAllNamespaces = q.WatchAllNamespaces
	options.NetworkPolicy = q.NetworkPolicy
	options.LogLevel = q.LogLevel
	options.ClusterDomain = q.ClusterDomain
	options.TolerationKeys = q.TolerationKeys
	options.ManifestFile = q.Namespace + ".yaml" // as cmd/flux/install.go names it
	made, err := install.Generate(options, folder)
	if err != nil {
		return "", err
	}
	return made.Content, nil
}
