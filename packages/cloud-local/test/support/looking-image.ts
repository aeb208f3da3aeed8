import type { GuestView } from "@kip/cloud/testing";
import { scriptHead, writeScriptImage } from "./script-image.ts";

/**
 * Writes an image that prints the disks that it sees on its console, and writes its host name to empty ones.
 *
 * @param template whether it can become a template
 */
export async function writeLookingImage(
  imagesDir: string,
  id: string,
  template = false,
): Promise<void> {
  await writeScriptImage(imagesDir, { id, script, template });
}

/** The last view on a console. Without any disks if there is none yet. */
export function readView(consoleText: string): GuestView {
  // Not at the beginning of a line, because the firmware's last output has no line end.
  const views = [...consoleText.matchAll(/view (.*) end\r?$/gm)];
  const [root = "", ...disks] = views.at(-1)?.[1]?.split(" / ") ?? [];
  return {
    rootBytes: Number(root) || 0,
    disks: disks.map((disk) => {
      const [serial = "", sizeBytes = "", content = ""] = disk.split(" ");
      return { serial, sizeBytes: Number(sizeBytes), content };
    }),
  };
}

const script = `${scriptHead("virtio_scsi sd_mod virtio_console")}
case "$cmdline" in
*" kip.template "*)
  until port=$(ls /dev/vport*p1); do usleep 10000; done 2>/dev/null
  exec 3<>$port
  echo template >&3
  IFS= read -r line <&3
  name=$(echo "$line" | sed 's/.*"hostname":"\\([^"]*\\)".*/\\1/')
  echo ready >&3
  ;;
*) for word in $cmdline; do
  case "$word" in kip.hostname=*) name=\${word#kip.hostname=} ;; esac
done ;;
esac
while :; do
  view=$(($(cat /sys/block/vda/size) * 512))
  for disk in /sys/block/sd*; do
    device=/dev/\${disk##*/}
    [ -b "$device" ] || continue
    # A disk may leave at any step; then it is not there.
    serial=$(tail -c +5 $disk/device/vpd_pg80) && read -r sectors <$disk/size || continue
    content=$(head -c 64 $device | tr -d '\\0' | head -n 1)
    if [ -z "$content" ]; then
      echo "$name" >$device || continue
      sync
      content=$(head -c 64 $device | head -n 1)
    fi
    view="$view / $serial $((sectors * 512)) $content"
  done
  [ "$view" = "$last" ] || echo "view $view end"
  last=$view
  usleep 100000
done
`;
