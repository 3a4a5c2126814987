//go:build defects && synctests

package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// defectSeedsMax is within how many scenes each defect must be seen.
const defectSeedsMax = 1000

// TestDefects builds the simulation with every defect in it and plays scenes
// with one at a time, until the auditor sees it; and first with none.
func TestDefects(t *testing.T) {
	binary := buildDefective(t)
	play := func(defect string, seeds int) (string, error) {
		c := exec.CommandContext(t.Context(), binary, "-test.run", "TestSeeds", "-test.timeout", "0", "-test.v", "-seeds", fmt.Sprint(seeds), "-beside", fmt.Sprint(*beside))
		if slices.Contains(wayBack, defect) {
			c.Args = append(c.Args, "-publish", "3")
		}
		c.Env = append(os.Environ(), "SIM_DEFECT="+defect)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := play("", 10); err != nil {
		t.Fatalf("without a defect: %v\n%s", err, out)
	}
	played := regexp.MustCompile(`(\d+) scenes from seed`)
	violation := regexp.MustCompile(`seed (\d+): \d+ violations.*\n(.*)`)
	for i, d := range defects {
		if i > 0 && defects[i-1].name == d.name {
			continue // another file of the same
		}
		t.Run(d.name, func(t *testing.T) {
			out, err := play(d.name, defectSeedsMax)
			found := violation.FindStringSubmatch(out)
			if err == nil || found == nil {
				t.Fatalf("not seen in %d scenes: %v\n%s", defectSeedsMax, err, out)
			}
			t.Logf("seen by seed %s, after %s scenes:%s", found[1], played.FindStringSubmatch(out)[1], found[2])
		})
	}
}

func buildDefective(t *testing.T) (binary string) {
	t.Helper()
	texts, err := plant()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range texts {
		copied := filepath.Join(folder, fmt.Sprintf("%d.go", len(overlay.Replace)))
		if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = copied
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(list, b, 0o644); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(folder, "sim.test")
	c := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", list, "-ldflags", "-s -w", "-tags", "synctests,disable_grpc_modules,grpcnotrace", "-o", binary, ".")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build with defects: %v\n%s", err, out)
	}
	return binary
}
