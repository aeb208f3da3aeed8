import { scriptHead, writeScriptImage } from "./script-image.ts";

/**
 * The guest's behaviour once it has started: `good` applies its clone identity; `refuse` sends another message; `hang-up`
 * closes the port without one; `die` powers itself off; `never` never becomes a template.
 */
export type TalkingGuest = "good" | "refuse" | "hang-up" | "die" | "never";

/**
 * Writes an image that uses its clone port as a cell does, but has no agent. It becomes a template in two seconds instead of
 * ten.
 */
export async function writeTalkingImage(
  imagesDir: string,
  id: string,
  guest: TalkingGuest,
): Promise<void> {
  await writeScriptImage(imagesDir, { id, script, word: `talk=${guest}`, template: true });
}

const script = `${scriptHead("virtio_console")}
case "$cmdline" in
*" kip.template "*) ;;
*) echo booted; while :; do sleep 1000; done ;;
esac
case "$cmdline" in *" talk=never "*) echo waiting; while :; do sleep 1000; done ;; esac
until port=$(ls /dev/vport*p1); do usleep 10000; done 2>/dev/null
exec 3<>$port
echo template >&3
while :; do
  IFS= read -r line <&3
  case "$line" in *'"images":'*) ;; *) break ;; esac
  preload=$line
  case "$line" in
  *unknown*) echo "no such image" >&3 ;;
  *endless*) echo waiting; while :; do sleep 1000; done ;;
  *) echo template >&3 ;;
  esac
done
echo "identity $line"
echo "preload $preload"
echo "disk $(head -c 7 /dev/vda | tr -d '\\0')"
printf changed >/dev/vda
sync
case "$cmdline" in
*" talk=good "*) echo ready >&3 ;;
*" talk=refuse "*) echo cannot >&3 ;;
*" talk=hang-up "*) exec 3>&- ;;
*" talk=die "*) poweroff -f ;;
esac
while :; do sleep 1000; done
`;
