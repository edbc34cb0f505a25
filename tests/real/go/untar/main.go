// Command untar unpacks archives as source-controller does, with fluxcd/pkg/tar: no limit, symbolic links left out.
//
// It reads one archive a line, in base64, and writes one JSON object for each: the files by path, or the error.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/fluxcd/pkg/tar"
)

type answer struct {
	Files map[string][]byte `json:"files"`
	Error string            `json:"error"`
}

func main() {
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		archive := make([]byte, base64.StdEncoding.DecodedLen(len(line)))
		length, err := base64.StdEncoding.Decode(archive, bytes.TrimSpace(line))
		if err != nil {
			log.Fatal(err)
		}
		var a answer
		if a.Files, err = unpack(archive[:length]); err != nil {
			a = answer{Error: err.Error()}
		}
		if err := out.Encode(a); err != nil {
			log.Fatal(err)
		}
	}
}

func unpack(archive []byte) (map[string][]byte, error) {
	folder, err := os.MkdirTemp("", "untar")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	err = tar.Untar(bytes.NewReader(archive), folder, tar.WithMaxUntarSize(tar.UnlimitedUntarSize), tar.WithSkipSymlinks())
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	return files, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
}
